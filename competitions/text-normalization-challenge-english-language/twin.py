from pathlib import Path

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.worlds.text import Prepare, make_spoken

from .prepare import prepare


def make(raw: Path, rng: np.random.Generator, size: str, prepare: Prepare = prepare) -> dict[str, pd.DataFrame]:
    return make_spoken(raw, rng, size, prepare, language="en", script="latin", cases=1)
