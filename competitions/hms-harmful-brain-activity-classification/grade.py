import numpy as np
import pandas as pd

from pytest_mlebench.authoring import (
    numeric,
    require_between,
    require_columns,
    require_row_count,
    require_row_sums,
    require_same_ids,
)
from pytest_mlebench.authoring.metrics.classification import kl_divergence, kl_divergences

from .labels import VOTES


def check(submission: pd.DataFrame, template: pd.DataFrame) -> np.ndarray:
    require_columns(submission, ["eeg_id", *VOTES])
    require_row_count(submission, template)
    votes = numeric(submission, VOTES)
    require_row_sums(np.nansum(votes, axis=1, keepdims=True).round(5), rtol=0, atol=0)
    # additional columns are accepted if they are numbers that do not change the sum
    columns = [column for column in submission.columns if column != "eeg_id"]
    values = numeric(submission, columns)
    require_between(values, columns)
    require_row_sums(values)
    require_same_ids(submission, template, on="eeg_id")
    # the rows of a recording cannot be told apart, so they are paired in order
    return votes[np.argsort(submission["eeg_id"], kind="stable")]


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> np.float64:
    return np.float64(kl_divergence(*_true_and_predicted(submission, answers)))


def row_scores(submission: pd.DataFrame, answers: pd.DataFrame) -> np.ndarray:
    return kl_divergences(*_true_and_predicted(submission, answers))


def _true_and_predicted(submission: pd.DataFrame, answers: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    predicted = check(submission, answers)
    counts = answers.sort_values("eeg_id", kind="stable")[VOTES].to_numpy()
    true = counts / counts.sum(axis=1, keepdims=True)
    return true, np.where(np.isnan(predicted), true, predicted)  # an empty vote adds nothing
