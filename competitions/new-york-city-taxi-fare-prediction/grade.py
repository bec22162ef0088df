import pandas as pd
from sklearn.metrics import root_mean_squared_error

from pytest_mlebench.authoring import numeric, require_columns, require_finite, require_row_count
from pytest_mlebench.authoring.resampling import RowScores, root_mean


def check(submission: pd.DataFrame, template: pd.DataFrame) -> "pd.Series[float]":
    """Return the fares sorted by key."""
    require_columns(submission, ["key", "fare_amount"])
    require_row_count(submission, template)
    fares = numeric(submission, "fare_amount")
    require_finite(fares, "fare_amount")
    return _sorted_by_key(submission.assign(fare_amount=fares))["fare_amount"]


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    return root_mean_squared_error(_sorted_by_key(answers)["fare_amount"], check(submission, answers))


def row_scores(submission: pd.DataFrame, answers: pd.DataFrame) -> RowScores:
    errors = _sorted_by_key(answers)["fare_amount"].to_numpy() - check(submission, answers).to_numpy()
    return root_mean(errors**2)


def _sorted_by_key(table: pd.DataFrame) -> pd.DataFrame:
    """Sort by key. Keys are never compared: predictions and answers are paired by the rank of their keys."""
    keys = table["key"]
    if keys.dtype == object:  # mixed numbers and strings cannot be sorted
        table = table.assign(key=keys.astype(str))
    return table.sort_values("key", kind="stable")
