from pathlib import Path

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.synthetic import patterns

from .. import synthetic as first
from ..synthetic import submissions as submissions


def make(raw: Path, seed: int) -> None:
    """Some photos occur several times, with small differences."""
    first.make(raw, seed)
    ids = pd.read_csv(raw / "train.csv")["Id"]
    images = patterns(len(ids), np.random.default_rng(seed))
    for id, image in zip(ids, images, strict=True):
        (raw / "train" / f"{id}.jpg").write_bytes(image)
