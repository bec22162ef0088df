from pathlib import Path

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.tables import read_csv, split, write_csv

RARE = "question_type_spelling"


def prepare(raw: Path, public: Path, private: Path) -> None:
    pairs = read_csv(raw / "train.csv")
    train, test = split(np.arange(len(pairs)), test_size=0.1)
    rare = pairs[RARE].to_numpy()
    if np.unique(rare[test]).size == 1:  # a constant column has no correlation
        other = np.argmax(rare[train] != 0)
        train[other], test[0] = test[0], train[other]
    write_sides(pairs.take(train), pairs.take(test), public, private)


def write_sides(train: pd.DataFrame, held_out: pd.DataFrame, public: Path, private: Path) -> None:
    targets = list(train.columns[11:])
    write_csv(train, public / "train.csv")
    write_csv(held_out[["qa_id", *targets]], private / "test.csv")
    write_csv(held_out.drop(columns=targets), public / "test.csv")
    rising = np.linspace(0, 1, len(held_out))
    write_csv(held_out[["qa_id"]].assign(**dict.fromkeys(targets, rising)), public / "sample_submission.csv")
