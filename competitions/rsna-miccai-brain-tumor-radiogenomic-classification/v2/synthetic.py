from pathlib import Path

import pandas as pd

from pytest_mlebench.authoring.tables import split

from .. import synthetic as first
from ..synthetic import submissions as submissions
from .prepare import FAULTY


def make(raw: Path, seed: int) -> None:
    """The faulty subjects are among those that version 1 holds out."""
    first.make(raw, seed)
    labels = pd.read_csv(raw / "train_labels.csv", dtype={"BraTS21ID": str})
    others = labels["BraTS21ID"][~labels["BraTS21ID"].isin(FAULTY)]
    _, held_out = split(others, test_size=0.1)
    absent = [subject for subject in FAULTY if subject not in set(labels["BraTS21ID"])]
    renamed = dict(zip(held_out, absent, strict=False))
    for old, new in renamed.items():
        (raw / "train" / old).rename(raw / "train" / new)
    labels.replace({"BraTS21ID": renamed}).to_csv(raw / "train_labels.csv", index=False)
