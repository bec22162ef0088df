from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.synthetic import first_value, standard


def make(raw: Path, seed: int) -> None:
    """Write nothing: the real data is small, and ``prepare`` takes it from scikit-learn."""


def submissions(public: Path, private: Path, rng: np.random.Generator) -> dict[str, Any]:
    answers = pd.read_csv(private / "test.csv")
    noisy = answers.assign(progression=(answers.progression + 50 * rng.standard_normal(len(answers))).clip(0))
    return {
        "constant": answers.assign(progression=100),
        "whole_numbers": noisy.assign(progression=noisy.progression.astype(int)),
        **first_value(noisy, "progression", one_far_off=1000, as_text="high", out_of_range=1000.5),
        "extra_column": noisy.assign(note="a, b")[["note", "progression", "id"]],
        **standard(
            noisy, "id", "unknown", "progression", "missing_column renamed_column nan_prediction infinite negative"
        ),
    }
