from pathlib import Path

import pandas as pd

from pytest_mlebench.data.archives import zip_member
from pytest_mlebench.data.tables import read_csv, write_csv

CLASSES = ["toxic", "severe_toxic", "obscene", "threat", "insult", "identity_hate"]


def prepare(raw: Path, public: Path, private: Path) -> None:
    write_csv(_read(raw, "train"), public / "train.csv")
    write_csv(_read(raw, "test"), public / "test.csv")
    write_csv(_read(raw, "test_labels"), private / "test.csv")
    sample = _read(raw, "sample_submission").assign(**dict.fromkeys(CLASSES, 0.5))
    write_csv(sample, public / "sample_submission.csv")


def _read(raw: Path, name: str) -> pd.DataFrame:
    with zip_member(raw / f"{name}.csv.zip", f"{name}.csv") as file:
        return read_csv(file)
