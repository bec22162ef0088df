"""Competitions from data that is installed along with a library: ``prepare.py`` without raw data."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pandas as pd

from pytest_mlebench.authoring.tables import split, write_csv

TEST_SHARE = 0.4


def write_competition(table: pd.DataFrame, target: str, placeholder: float, public: Path, private: Path) -> None:
    """Split a table of numbers 60 : 40; write ``train.csv``, ``test.csv``, ``sample_submission.csv`` and the answers.

    Each row gets an ``id`` that says nothing of it; the answers are ``private/test.csv`` with ``id`` and ``target``.
    ``placeholder`` is the prediction of the sample submission.
    """
    # Whole numbers as such: 16.0 for a pixel of 16 would only make the files longer.
    table = table.astype({column: int for column in table if (table[column] % 1 == 0).all()})
    train, test = split(table, test_size=TEST_SHARE)
    # From the place in the shuffled table, since one from the original row would say where to look it up.
    ids = [hashlib.sha256(f"{target}:{place}".encode()).hexdigest()[:8] for place in range(len(table))]
    train, test = (part.reset_index(drop=True) for part in (train, test))
    train.insert(0, "id", ids[: len(train)])
    test.insert(0, "id", ids[len(train) :])
    write_csv(train, public / "train.csv")
    write_csv(test.drop(columns=target), public / "test.csv")
    write_csv(test[["id"]].assign(**{target: placeholder}), public / "sample_submission.csv")
    write_csv(test[["id", target]], private / "test.csv")
