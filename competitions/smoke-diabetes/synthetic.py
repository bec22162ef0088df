from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pytest_mlebench.data.synthetic import malformed_rows


def make(raw: Path, seed: int) -> None:
    """Nothing: the real data is small, and ``prepare`` takes it from scikit-learn."""


def submissions(public: Path, private: Path, rng: np.random.Generator) -> dict[str, Any]:
    answers = pd.read_csv(private / "test.csv")
    noisy = answers.assign(progression=(answers.progression + 50 * rng.standard_normal(len(answers))).clip(0))
    head = noisy.progression.iloc[1:]
    return {
        "noisy": noisy,
        "noisy_shuffled": noisy.sample(frac=1, random_state=0),
        "constant": answers.assign(progression=100),
        "whole_numbers": noisy.assign(progression=noisy.progression.astype(int)),
        "one_far_off": noisy.assign(progression=[1000, *head]),
        "extra_column": noisy.assign(note="a, b")[["note", "progression", "id"]],
        **malformed_rows(noisy, "id", unknown="unknown"),
        "missing_column": noisy[["id"]],
        "renamed_column": noisy.rename(columns={"progression": "target"}),
        "nan_prediction": noisy.assign(progression=[None, *head]),
        "as_text": noisy.assign(progression=["high", *head]),
        "infinite": noisy.assign(progression=[np.inf, *head]),
        "out_of_range": noisy.assign(progression=[1000.5, *head]),
        "negative": noisy.assign(progression=[-0.5, *head]),
    }
