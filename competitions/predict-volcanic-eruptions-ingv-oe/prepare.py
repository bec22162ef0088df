from pathlib import Path

from pytest_mlebench.authoring.files import link_files
from pytest_mlebench.authoring.tables import read_csv, split, write_csv


def prepare(raw: Path, public: Path, private: Path) -> None:
    train, test = split(read_csv(raw / "train.csv"), test_size=0.1)
    write_csv(train, public / "train.csv")
    write_csv(test, private / "test.csv")
    write_csv(test.assign(time_to_eruption=0), public / "sample_submission.csv")
    for name, rows in (("train", train), ("test", test)):
        link_files((f"{segment}.csv" for segment in rows["segment_id"]), raw / "train", public / name)
