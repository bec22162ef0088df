from pathlib import Path

from pytest_mlebench.authoring.files import link
from pytest_mlebench.authoring.tables import read_csv, write_csv


def prepare(raw: Path, public: Path, private: Path) -> None:
    link(raw / "train.csv", public / "train.csv")
    test = read_csv(raw / "test_with_solutions.csv", keep_default_na=False)
    test = test[["Insult", "Date", "Comment"]].rename_axis("id").reset_index()
    write_csv(test[["id", "Insult"]], private / "test.csv")
    write_csv(test[["id", "Date", "Comment"]], public / "test.csv")
    write_csv(test[["id"]].assign(Insult=0), public / "sample_submission_null.csv")
