from pathlib import Path

from pytest_mlebench.authoring.tables import read_text_csv, split, write_csv


def prepare(raw: Path, public: Path, private: Path) -> None:
    train, test = split(read_text_csv(raw / "houses.csv"), test_size=0.2)
    write_csv(train, public / "train.csv")
    write_csv(test.drop(columns="price"), public / "test.csv")
    write_csv(test[["id", "price"]], private / "test.csv")
    write_csv(test[["id"]].assign(price=100.0), public / "sample_submission.csv")
