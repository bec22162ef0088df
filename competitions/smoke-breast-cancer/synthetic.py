from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.synthetic import first_value, standard


def make(raw: Path, seed: int) -> None:
    """Write nothing: the real data is small, and ``prepare`` takes it from scikit-learn."""


def submissions(public: Path, private: Path, rng: np.random.Generator) -> dict[str, Any]:
    answers = pd.read_csv(private / "test.csv")
    noise = rng.standard_normal(len(answers))
    noisy = answers.assign(malignant=np.clip(0.4 * answers.malignant + 0.3 + 0.3 * noise, 0, 1))
    p = noisy.malignant
    return {
        "constant": answers.assign(malignant=0.25),
        "reversed": noisy.assign(malignant=1 - p),
        "hard_labels": noisy.assign(malignant=(p > 0.5).astype(int)),
        "very_close": noisy.assign(malignant=0.5 + 1e-12 * p),
        "extra_column": noisy.assign(note="a, b")[["note", "malignant", "id"]],
        **standard(noisy, "id", "unknown", "malignant", "missing_column renamed_column nan_prediction"),
        **first_value(noisy, "malignant", as_text="high", above_one=1.0001, below_zero=-0.0001),
    }
