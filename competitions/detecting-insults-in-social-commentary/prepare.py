from pathlib import Path

from pytest_mlebench.authoring.files import link
from pytest_mlebench.authoring.tables import read_csv, write_csv


def prepare(raw: Path, public: Path, private: Path) -> None:
    link(raw / "train.csv", public / "train.csv")
    link(raw / "test_with_solutions.csv", private / "test.csv")
    test = read_csv(private / "test.csv")[["Insult", "Date", "Comment"]]
    write_csv(test, private / "gold_submission.csv")
    write_csv(test[["Date", "Comment"]], public / "test.csv")
    write_csv(test.assign(Insult=0), public / "sample_submission_null.csv")
