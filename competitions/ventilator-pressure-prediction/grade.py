from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.metrics import mean_absolute_error

from pytest_mlebench.authoring import alignment, numeric, require_columns, require_finite
from pytest_mlebench.authoring.resampling import RowScores, mean_of
from pytest_mlebench.authoring.tables import read_csv


def read_template(public: Path) -> pd.DataFrame:
    return read_csv(public / "test.csv", usecols=["id", "u_out"])


def check(submission: pd.DataFrame, template: pd.DataFrame) -> np.ndarray:
    """Return the pressures during inhalation."""
    require_columns(submission, ["id", "pressure"])
    order = alignment(submission, template, on="id")[template["u_out"] == 0]
    scored = np.zeros(len(submission), dtype=bool)
    scored[order] = True
    # During exhalation, any value is accepted, even a string.
    pressure = numeric(submission.assign(pressure=submission["pressure"].astype(object).where(scored, 0.0)), "pressure")
    require_finite(pressure, "pressure")
    return pressure[order]


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    return mean_absolute_error(answers["pressure"][answers["u_out"] == 0], check(submission, answers))


def row_scores(submission: pd.DataFrame, answers: pd.DataFrame) -> RowScores:
    scored = answers[answers["u_out"] == 0]
    errors = np.abs(scored["pressure"].to_numpy() - check(submission, answers))
    return mean_of(errors, units=scored["breath_id"])
