from pathlib import Path

import pandas as pd

from pytest_mlebench.authoring.corrections import hold_out_groups
from pytest_mlebench.authoring.tables import read_csv

from .. import prepare as first


def prepare(raw: Path, public: Path, private: Path) -> None:
    train, test = hold_out_groups(book)(read_csv(raw / "train.csv"), test_size=0.1)
    first.write_sides(train, test, raw, public, private)


def book(pages: pd.DataFrame) -> "pd.Series[str]":
    """Return the book of each page: the part of the image's name before the page number."""
    return pages["image_id"].str.split(r"[_-]", regex=True).str[0]
