import numpy as np
import pandas as pd
from sklearn.metrics import roc_auc_score

from pytest_mlebench.authoring import (
    InvalidSubmission,
    isin,
    numeric,
    predictions,
    require_columns,
    require_finite,
    require_row_count,
)
from pytest_mlebench.authoring.resampling import RowScores, roc_auc

from .labels import CLASSES


def check(submission: pd.DataFrame, template: pd.DataFrame) -> None:
    """Check all rows, because the answers define which ones count. The original grader checks only those."""
    require_columns(submission, ["id", *CLASSES], exactly=True)
    require_row_count(submission, template)
    predictions(submission, template, CLASSES, on="id")


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    return roc_auc_score(*_true_and_predicted(submission, answers), average="macro")


def row_scores(submission: pd.DataFrame, answers: pd.DataFrame) -> RowScores:
    return roc_auc(*_true_and_predicted(submission, answers))


def _true_and_predicted(submission: pd.DataFrame, answers: pd.DataFrame) -> tuple[pd.DataFrame, np.ndarray]:
    require_columns(submission, ["id", *CLASSES], exactly=True)
    require_row_count(submission, answers)
    ids = submission["id"]
    if not (known := isin(ids, answers["id"])).all():
        raise InvalidSubmission(f"id {ids[~known].iloc[0]!r} is not an id of the test set")
    truth = answers[answers[CLASSES].sum(axis=1) >= 0].sort_values("id")
    counts = isin(ids, truth["id"])
    if counts.sum() != len(truth):
        raise InvalidSubmission(f"id {ids[ids.duplicated()].iloc[0]!r} occurs more than once")
    # Like the original grader, read only the rows that count, and pair by position: the classes as given, and the
    # rows sorted by id.
    columns = [column for column in submission.columns if column != "id"]
    scores = numeric(submission[columns].astype(object).where(counts, 0), columns)
    require_finite(scores, columns)
    rows = np.flatnonzero(counts)
    by_id = rows[np.argsort(ids.to_numpy(dtype=object)[rows], kind="stable")]
    return truth[CLASSES], scores[by_id]
