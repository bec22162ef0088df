from pathlib import Path

from pytest_mlebench.authoring.corrections import hold_out_groups
from pytest_mlebench.authoring.tables import read_csv, write_csv


def prepare(raw: Path, public: Path, private: Path) -> None:
    """Hold out a twentieth of train.csv, about as many comments as in Kaggle's private test set."""
    comments = read_csv(raw / "train.csv", converters={"comment_text": str})  # keep the word NA as text
    split = hold_out_groups(lambda rows: rows["comment_text"].str.split().str.join(" ").str.lower())
    train, test = split(comments, test_size=0.05)
    write_csv(train, public / "train.csv")
    write_csv(test.rename(columns={"target": "toxicity"}), private / "test.csv")
    write_csv(test[["id", "comment_text"]], public / "test.csv")
    write_csv(test[["id"]].assign(prediction=0.0), public / "sample_submission.csv")
