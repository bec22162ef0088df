from pathlib import Path
from typing import Any

from pytest_mlebench.data.authoring.tables import read_csv, split, write_csv


def prepare(raw: Path, public: Path, private: Path, **options: Any) -> None:
    """``options`` are those of pandas' ``read_csv``."""
    train, test = split(read_csv(raw / "train.csv", **options), test_size=0.1)
    write_csv(train, public / "train.csv")
    write_csv(test, private / "test.csv")
    write_csv(test[["textID", "text", "sentiment"]], public / "test.csv")
    write_csv(test[["textID"]].assign(selected_text=""), public / "sample_submission.csv")
