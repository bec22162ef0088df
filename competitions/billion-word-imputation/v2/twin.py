from pathlib import Path

import numpy as np
import pandas as pd

from .. import twin as first
from .prepare import prepare


def make(raw: Path, rng: np.random.Generator, size: str) -> dict[str, pd.DataFrame]:
    """Remove words with this version's ``prepare``, which chooses others."""
    return first.make(raw, rng, size, prepare)
