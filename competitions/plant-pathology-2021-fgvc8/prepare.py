from pathlib import Path

import pandas as pd

from pytest_mlebench.authoring.files import link_files
from pytest_mlebench.authoring.tables import read_csv, split, write_csv


def prepare(raw: Path, public: Path, private: Path) -> None:
    write_sides(*split(read_csv(raw / "train.csv"), test_size=0.2), raw, public, private)


def write_sides(train: pd.DataFrame, test: pd.DataFrame, raw: Path, public: Path, private: Path) -> None:
    write_csv(train, public / "train.csv")
    write_csv(test, private / "answers.csv")
    write_csv(test[["image"]].assign(labels="healthy"), public / "sample_submission.csv")
    link_files(train["image"], raw / "train_images", public / "train_images")
    link_files(test["image"], raw / "train_images", public / "test_images")
