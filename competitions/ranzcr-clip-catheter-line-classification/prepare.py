from collections.abc import Sequence
from pathlib import Path

from pytest_mlebench.data.authoring.corrections import Split
from pytest_mlebench.data.authoring.files import link_files
from pytest_mlebench.data.authoring.tables import hold_out, read_csv, split, write_csv

UNSCORED = ["CVC - Normal", "Swan Ganz Catheter Present", "PatientID"]


def prepare(
    raw: Path, public: Path, private: Path, *, split: Split = split, unscored: Sequence[str] = tuple(UNSCORED)
) -> None:
    train, test = split(read_csv(raw / "train.csv"), test_size=0.1)
    write_csv(train, public / "train.csv")
    write_csv(test, private / "test.csv")
    sample = test.drop(columns=list(unscored))
    sample.iloc[:, 1:] = 0
    write_csv(sample, public / "sample_submission.csv")
    annotations, _ = hold_out(read_csv(raw / "train_annotations.csv"), "StudyInstanceUID", test["StudyInstanceUID"])
    write_csv(annotations, public / "train_annotations.csv")
    link_files(train["StudyInstanceUID"] + ".jpg", raw / "train", public / "train")
    link_files(test["StudyInstanceUID"] + ".jpg", raw / "train", public / "test")
