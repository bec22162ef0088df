from pathlib import Path

import pandas as pd

from pytest_mlebench.authoring.archives import copy_members
from pytest_mlebench.authoring.files import link
from pytest_mlebench.authoring.tables import read_csv, split, write_csv


def prepare(raw: Path, public: Path, private: Path) -> None:
    write_sides(*split(read_csv(raw / "train.csv"), test_size=0.1), raw, public, private)


def write_sides(train: pd.DataFrame, test: pd.DataFrame, raw: Path, public: Path, private: Path) -> None:
    write_csv(train, public / "train.csv")
    write_csv(test, private / "test.csv")
    write_csv(test.assign(labels="U+003F 1 1 U+FF2F 2 2"), public / "sample_submission.csv")
    write_csv(test.assign(labels=[_inner_points(labels) for labels in test["labels"]]), private / "gold_submission.csv")
    link(raw / "unicode_translation.csv", public / "unicode_translation.csv")
    for name, rows in (("train_images.zip", train), ("test_images.zip", test)):
        copy_members(raw / "train_images.zip", public / name, rows["image_id"] + ".jpg")


def _inner_points(labels: str | float) -> str:
    """Return a point in each box. For a page without characters, ``labels`` is a missing value."""
    parts = [] if pd.isna(labels) else str(labels).split()
    boxes = zip(parts[::5], parts[1::5], parts[2::5], strict=True)
    return " ".join(f"{character} {int(x) + 1} {int(y) + 1}" for character, x, y in boxes)
