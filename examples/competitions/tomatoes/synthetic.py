from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.synthetic import first_value, standard


def make(raw: Path, seed: int) -> None:
    """Create nothing: the table is small and stored next to this file."""


def submissions(public: Path, private: Path, rng: np.random.Generator) -> dict[str, Any]:
    answers = pd.read_csv(private / "test.csv")
    noisy = answers.assign(harvest=(answers["harvest"] + rng.normal(0, 0.5, len(answers))).clip(0).round(2))
    return {
        "extra_column": noisy.assign(note="x"),
        **first_value(noisy, "harvest", far_off=100, too_much=100.5),
        **standard(noisy, "id", -1, "harvest", "missing_column missing_id nan_prediction text_prediction negative"),
    }
