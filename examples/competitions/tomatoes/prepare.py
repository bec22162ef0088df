from pathlib import Path

from pytest_mlebench.authoring.tables import read_text_csv, split, write_csv

TABLE = Path(__file__).with_name("tomatoes.csv")


def prepare(raw: Path, public: Path, private: Path) -> None:
    train, test = split(read_text_csv(TABLE), test_size=0.25)
    write_csv(train, public / "train.csv")
    write_csv(test.drop(columns="harvest"), public / "test.csv")
    write_csv(test[["id", "harvest"]], private / "test.csv")
    write_csv(test[["id"]].assign(harvest=5.0), public / "sample_submission.csv")
