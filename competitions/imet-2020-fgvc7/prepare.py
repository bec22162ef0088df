from pathlib import Path

from pytest_mlebench.authoring.files import link, link_files
from pytest_mlebench.authoring.tables import read_csv, split, write_csv


def prepare(raw: Path, public: Path, private: Path) -> None:
    train, test = split(read_csv(raw / "train.csv"), test_size=0.15)
    write_csv(train, public / "train.csv")
    write_csv(test, private / "answers.csv")
    write_csv(test[["id"]].assign(attribute_ids="0 1 2"), public / "sample_submission.csv")
    link(raw / "labels.csv", public / "labels.csv")
    link_files(train["id"] + ".png", raw / "train", public / "train")
    link_files(test["id"] + ".png", raw / "train", public / "test")
