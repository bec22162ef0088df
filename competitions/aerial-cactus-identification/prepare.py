from pathlib import Path

from pytest_mlebench.authoring.archives import copy_members
from pytest_mlebench.authoring.tables import read_csv, split, write_csv


def prepare(raw: Path, public: Path, private: Path) -> None:
    train, test = split(read_csv(raw / "train.csv"), test_size=0.19)
    write_csv(train, public / "train.csv")
    write_csv(test, private / "test.csv")
    write_csv(test.assign(has_cactus=0.5), public / "sample_submission.csv")
    for name, rows in (("train.zip", train), ("test.zip", test)):
        copy_members(raw / "train.zip", public / name, {f"train/{image}": image for image in rows["id"]})
