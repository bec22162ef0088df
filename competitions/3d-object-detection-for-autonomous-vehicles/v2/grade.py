import numpy as np
import pandas as pd

from .. import grade as first
from ..grade import check as check


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    return float(_precisions(submission, answers).mean())


def row_scores(submission: pd.DataFrame, answers: pd.DataFrame) -> np.ndarray:
    return _precisions(submission, answers).mean(axis=0)


def _precisions(submission: pd.DataFrame, answers: pd.DataFrame) -> np.ndarray:
    """Return TP / (TP + FP + FN) over the boxes of all classes: shape (thresholds, samples)."""
    predicted, rows = first.read(submission, answers)
    first.require_valid(predicted, rows)
    truth, groups = first.true_boxes(answers)
    n = len(answers)
    boxes = np.bincount(predicted["sample"], minlength=n) + np.bincount(truth["sample"], minlength=n)
    scores = []
    for ranked, hits in first.hits_by_threshold(first.of_groups(predicted, truth), truth, groups):
        found = np.bincount(ranked.loc[hits, "sample"], minlength=n)
        scores.append(found / (boxes - found))
    return np.array(scores)
