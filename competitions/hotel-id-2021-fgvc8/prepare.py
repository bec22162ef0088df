from pathlib import Path

import pandas as pd

from pytest_mlebench.authoring.files import link_files
from pytest_mlebench.authoring.tables import read_csv, split, write_csv

LISTED_TWICE = "ce27d36c9147cc19.jpg"  # listed in two chains, so its label is uncertain


def prepare(raw: Path, public: Path, private: Path) -> None:
    write_sides(*split(read_images(raw), test_size=0.1), raw, public, private)


def read_images(raw: Path) -> pd.DataFrame:
    return read_csv(raw / "train.csv").query("image != @LISTED_TWICE")


def write_sides(train: pd.DataFrame, test: pd.DataFrame, raw: Path, public: Path, private: Path) -> None:
    write_csv(train, public / "train.csv")
    write_csv(test, private / "test.csv")
    sample = test[["image"]].assign(hotel_id="36363 53586 18807 64314 60181")
    write_csv(sample, public / "sample_submission.csv")
    folder = raw / "train_images"
    link_files(train["chain"].astype(str) + "/" + train["image"], folder, public / "train_images")
    in_chain = dict(zip(test["chain"].astype(str) + "/" + test["image"], test["image"], strict=True))
    link_files(in_chain, folder, public / "test_images")
