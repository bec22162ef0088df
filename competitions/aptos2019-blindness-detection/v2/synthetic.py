from pathlib import Path

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.synthetic import patterns

from .. import synthetic as first
from ..synthetic import submissions as submissions


def make(raw: Path, seed: int) -> None:
    """Some photographs occur several times, with small differences."""
    first.make(raw, seed)
    names = pd.read_csv(raw / "train.csv")["id_code"]
    images = patterns(len(names), np.random.default_rng(seed))
    for name, image in zip(names, images, strict=True):
        (raw / "train_images" / f"{name}.png").write_bytes(image)
