from pathlib import Path

import pandas as pd

from pytest_mlebench.authoring.files import link_tree
from pytest_mlebench.authoring.tables import read_csv, split, write_csv


def prepare(raw: Path, public: Path, private: Path) -> None:
    write_sides(*split(read_labels(raw), test_size=0.1), raw, public, private)


def read_labels(raw: Path) -> pd.DataFrame:
    return read_csv(raw / "train_labels.csv", dtype={"BraTS21ID": str})


def write_sides(train: pd.DataFrame, test: pd.DataFrame, raw: Path, public: Path, private: Path) -> None:
    write_csv(train, public / "train_labels.csv")
    write_csv(test, private / "test.csv")
    write_csv(test.assign(MGMT_value=0.5), public / "sample_submission.csv")
    for name, rows in (("train", train), ("test", test)):
        for subject in rows["BraTS21ID"]:
            link_tree(raw / "train" / subject, public / name / subject)
