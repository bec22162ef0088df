from pathlib import Path

from pytest_mlebench.authoring.tables import read_csv, split, write_csv


def prepare(raw: Path, public: Path, private: Path) -> None:
    train, test = split(read_csv(raw / "train.csv", dtype="int32"), test_size=0.1)  # int64 would take twice the memory
    write_csv(train, public / "train.csv")
    write_csv(test, private / "test.csv")
    write_csv(test.drop(columns="Cover_Type"), public / "test.csv")
    write_csv(test[["Id"]].assign(Cover_Type=2), public / "sample_submission.csv")
