import math

import numpy as np
import pandas as pd

from pytest_mlebench.authoring import InvalidSubmission, numeric, require_columns
from pytest_mlebench.authoring.metrics.classification import laplace_log_likelihood, laplace_log_likelihoods
from pytest_mlebench.authoring.resampling import RowScores, mean_of


def check(submission: pd.DataFrame, template: pd.DataFrame) -> None:
    """Check that no week occurs twice, scored or not: which weeks are scored is part of the answers."""
    _read(submission, template)
    _require_unique(submission["Patient_Week"])


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> np.float64:
    given, *values = _scored(submission, answers)
    if given.empty:
        return np.float64(math.nan)
    return np.float64(laplace_log_likelihood(*values, min_scale=70, max_error=1000))


def row_scores(submission: pd.DataFrame, answers: pd.DataFrame) -> RowScores:
    weeks, *values = _scored(submission, answers)
    likelihoods = laplace_log_likelihoods(*values, min_scale=70, max_error=1000)
    return mean_of(likelihoods, units=weeks.str.rpartition("_")[0])  # resample whole patients


def _scored(
    submission: pd.DataFrame, answers: pd.DataFrame
) -> tuple["pd.Series[str]", "pd.Series[float]", np.ndarray, np.ndarray]:
    """Return the weeks that count, with their true FVC, predicted FVC and confidence."""
    weeks, fvc, confidence = _read(submission, answers)
    visits = answers.dropna(subset="FVC").sort_values("Weeks").groupby("Patient").tail(3)
    truth = visits.set_index("Patient_Week")["FVC"]
    counts = weeks.isin(truth.index).to_numpy()
    given = weeks[counts]
    # as in the reference, duplicates are accepted if all rows are for one week
    if given.nunique() > 1:
        _require_unique(given)
    confidence = np.where(np.isnan(confidence), 0, confidence)
    return given, truth.loc[given], fvc[counts], confidence[counts]


def _read(submission: pd.DataFrame, template: pd.DataFrame) -> tuple["pd.Series[str]", np.ndarray, np.ndarray]:
    require_columns(submission, ["Patient_Week", "FVC", "Confidence"])
    fvc, confidence = numeric(submission, ["FVC", "Confidence"]).T
    weeks = submission["Patient_Week"]
    if submission.empty:
        raise InvalidSubmission("the file has no rows")
    if (unknown := weeks[~weeks.isin(template["Patient_Week"])]).size:
        raise InvalidSubmission(f"Patient_Week {unknown.iloc[0]!r} is not an id of the test set")
    return weeks, fvc, confidence


def _require_unique(weeks: "pd.Series[str]") -> None:
    if not weeks.is_unique:
        raise InvalidSubmission(f"Patient_Week {weeks[weeks.duplicated()].iloc[0]!r} occurs more than once")
