from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pytest_mlebench.data.authoring.archives import zip_member
from pytest_mlebench.data.authoring.corrections import Split
from pytest_mlebench.data.authoring.tables import read_csv, split, write_csv

from .records import scratch_records


def prepare(raw: Path, public: Path, private: Path, *, split: Split = split, **options: Any) -> None:
    """``split`` is given the numbers of the rows; ``options`` as for ``read_csv``."""
    n = sum(len(rows) for rows in blocks(raw, usecols=["Id"]))
    train, test = split(np.arange(n), test_size=0.1)
    held_out = np.zeros(n, dtype=bool)
    held_out[test] = True
    parts = []
    with scratch_records(public.parent) as records:
        for rows in blocks(raw, **options):
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
