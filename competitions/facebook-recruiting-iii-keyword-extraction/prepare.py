from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pytest_mlebench.authoring.archives import zip_member
from pytest_mlebench.authoring.tables import read_csv, split, write_csv

from .records import scratch_records

Numbers = NDArray[np.intp]


def prepare(raw: Path, public: Path, private: Path) -> None:
    n = sum(len(rows) for rows in blocks(raw, usecols=["Id"]))
    write_sides(*split(np.arange(n), test_size=0.1), blocks(raw), public, private)


def write_sides(train: Numbers, test: Numbers, questions: Iterator[pd.DataFrame], public: Path, private: Path) -> None:
    """Write the data; ``train`` and ``test`` are row numbers of the questions, which arrive in blocks."""
    held_out = np.zeros(len(train) + len(test), dtype=bool)
    held_out[test] = True
    parts = []
    with scratch_records(public.parent) as records:
        for rows in questions:
            is_test = held_out[rows.index]
            parts.append(rows[is_test])
            records.add(rows[~is_test])
        records.write_csv(public / "train.csv", list(rows), np.searchsorted(np.flatnonzero(~held_out), train))
    answers = pd.concat(parts).loc[test]
    write_csv(answers, private / "test.csv")
    write_csv(answers.drop(columns="Tags"), public / "test.csv")
    write_csv(answers.assign(Tags="javascript c# python php java"), public / "sample_submission.csv")


def blocks(raw: Path, **options: Any) -> Iterator[pd.DataFrame]:
    with zip_member(raw / "Train.zip", "Train.csv") as file:
        yield from read_csv(file, dtype=str, chunksize=100_000, **options)
