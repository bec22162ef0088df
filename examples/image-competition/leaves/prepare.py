from pathlib import Path

from pytest_mlebench.authoring.files import link_files
from pytest_mlebench.authoring.tables import read_text_csv, split_groups, write_csv


def prepare(raw: Path, public: Path, private: Path) -> None:
    train, test = split_groups(read_text_csv(raw / "labels.csv"), "plant", test_size=0.25)
    for name, rows in (("train", train), ("test", test)):
        link_files([f"{id}.png" for id in rows["id"]], raw / "images", public / name)
    write_csv(train, public / "train.csv")
    write_csv(test, private / "test.csv")
    write_csv(test[["id"]].assign(rusty=0.5), public / "sample_submission.csv")
