from pathlib import Path

from pytest_mlebench.authoring.corrections import hold_out_groups
from pytest_mlebench.authoring.tables import read_zipped_csv, write_csv

from ..labels import CLASSES


def prepare(raw: Path, public: Path, private: Path) -> None:
    """Keep equal texts together, such as one message to many users. Users and pages are not known."""
    comments = read_zipped_csv(raw / "train.csv.zip", keep_default_na=False)
    split = hold_out_groups(lambda rows: rows["comment_text"].str.split().str.join(" ").str.lower())
    train, test = split(comments, test_size=0.2)
    write_csv(train, public / "train.csv")
    write_csv(test.drop(columns=CLASSES), public / "test.csv")
    write_csv(test[["id", *CLASSES]], private / "test.csv")
    write_csv(test[["id"]].assign(**dict.fromkeys(CLASSES, 0.5)), public / "sample_submission.csv")
