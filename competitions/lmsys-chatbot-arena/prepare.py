from pathlib import Path

from pytest_mlebench.authoring.tables import read_csv, split, write_csv


def prepare(raw: Path, public: Path, private: Path) -> None:
    train, test = split(read_csv(raw / "train.csv"), test_size=0.1)
    write_csv(train, public / "train.csv")
    write_csv(test, private / "answers.csv")
    write_csv(test[["id", "prompt", "response_a", "response_b"]], public / "test.csv")
    sample = test[["id"]].assign(winner_model_a=1 / 3, winner_model_b=1 / 3, winner_tie=1 / 3)
    write_csv(sample, public / "sample_submission.csv")
