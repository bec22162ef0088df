from pathlib import Path

from pytest_mlebench.authoring.files import link
from pytest_mlebench.authoring.tables import read_csv, write_csv


def prepare(raw: Path, public: Path, private: Path) -> None:
    link(raw / "train.csv", public / "train.csv")
    link(raw / "test_private_expanded.csv", private / "test.csv")
    test = read_csv(raw / "test_private_expanded.csv", usecols=["id", "comment_text"])
    write_csv(test[["id", "comment_text"]], public / "test.csv")
    write_csv(test[["id"]].assign(prediction=0.0), public / "sample_submission.csv")
