from pathlib import Path

from pytest_mlebench.data.authoring.files import link_tree
from pytest_mlebench.data.authoring.tables import read_csv, split, write_csv


def prepare(raw: Path, public: Path, private: Path) -> None:
    train, test = split(read_csv(raw / "train_labels.csv", dtype={"BraTS21ID": str}), test_size=0.1)
    write_csv(train, public / "train_labels.csv")
    write_csv(test, private / "test.csv")
    write_csv(test.assign(MGMT_value=0.5), public / "sample_submission.csv")
    for name, rows in (("train", train), ("test", test)):
        for subject in rows["BraTS21ID"]:
            link_tree(raw / "train" / subject, public / name / subject)
