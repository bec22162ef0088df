from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pytest_mlebench.data.synthetic import malformed_rows


def make(raw: Path, seed: int) -> None:
    """Nothing: the real data is small, and ``prepare`` takes it from scikit-learn."""


def submissions(public: Path, private: Path, rng: np.random.Generator) -> dict[str, Any]:
    answers = pd.read_csv(private / "test.csv")
    n = len(answers)
    noisy = answers.assign(digit=np.where(rng.random(n) < 0.3, rng.integers(0, 10, n), answers.digit))
    head = noisy.digit.iloc[1:]
    return {
        "noisy": noisy,
        "noisy_shuffled": noisy.sample(frac=1, random_state=0),
        "constant": answers.assign(digit=3),
        "as_floats": noisy.assign(digit=noisy.digit.astype(float)),
        "extra_column": noisy.assign(note="a, b")[["note", "digit", "id"]],
        **malformed_rows(noisy, "id", unknown="unknown"),
        "missing_column": noisy[["id"]],
        "renamed_column": noisy.rename(columns={"digit": "label"}),
        "nan_prediction": noisy.assign(digit=[None, *head]),
        "as_text": noisy.assign(digit=["seven", *head]),
        "out_of_range": noisy.assign(digit=[10, *head]),
        "negative": noisy.assign(digit=[-1, *head]),
        "fraction": noisy.assign(digit=[2.5, *head]),
    }
