from pathlib import Path

import pandas as pd

from pytest_mlebench.authoring.files import link_files
from pytest_mlebench.authoring.tables import hold_out, read_csv, split, write_csv

UNSCORED = ["CVC - Normal", "Swan Ganz Catheter Present", "PatientID"]


def prepare(raw: Path, public: Path, private: Path) -> None:
    train, test = split(read_csv(raw / "train.csv"), test_size=0.1)
    write_sides(train, test, test.drop(columns=UNSCORED), raw, public, private)


def write_sides(
    train: pd.DataFrame, test: pd.DataFrame, scored: pd.DataFrame, raw: Path, public: Path, private: Path
) -> None:
    """Write the data; ``scored`` has the columns of a submission."""
    write_csv(train, public / "train.csv")
    write_csv(test, private / "test.csv")
    write_csv(scored.assign(**dict.fromkeys(scored.columns[1:], 0)), public / "sample_submission.csv")
    annotations, _ = hold_out(read_csv(raw / "train_annotations.csv"), "StudyInstanceUID", test["StudyInstanceUID"])
    write_csv(annotations, public / "train_annotations.csv")
    link_files(train["StudyInstanceUID"] + ".jpg", raw / "train", public / "train")
    link_files(test["StudyInstanceUID"] + ".jpg", raw / "train", public / "test")
