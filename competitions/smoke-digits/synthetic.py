from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.synthetic import first_value, standard


def make(raw: Path, seed: int) -> None:
    """Write nothing: the real data is small, and ``prepare`` takes it from scikit-learn."""


def submissions(public: Path, private: Path, rng: np.random.Generator) -> dict[str, Any]:
    answers = pd.read_csv(private / "test.csv")
    n = len(answers)
    noisy = answers.assign(digit=np.where(rng.random(n) < 0.3, rng.integers(0, 10, n), answers.digit))
    return {
        "constant": answers.assign(digit=3),
        "as_floats": noisy.assign(digit=noisy.digit.astype(float)),
        "extra_column": noisy.assign(note="a, b")[["note", "digit", "id"]],
        **standard(noisy, "id", "unknown", "digit", "missing_column renamed_column nan_prediction negative"),
        **first_value(noisy, "digit", as_text="seven", out_of_range=10, fraction=2.5),
    }
