from pathlib import Path

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.corrections import hold_out_groups

from .. import prepare as base
from .. import twin as first
from .prepare import recordings


def make(raw: Path, rng: np.random.Generator, size: str) -> dict[str, pd.DataFrame]:
    heard = first.write_frames(raw, rng, size)
    rows, test_size = base.frames(raw)
    numbers = recordings(raw / base.FOLDER / "train_11.npy")
    return first.guesses(heard, hold_out_groups(lambda rows: numbers)(rows, test_size=test_size)[1])
