import numpy as np
import pandas as pd
from scipy.stats import pmean

from pytest_mlebench.authoring import InvalidSubmission, predictions

from .. import grade as first
from ..grade import read_answers as read_answers


def check(submission: pd.DataFrame, template: pd.DataFrame) -> np.ndarray:
    if {"prediction", "toxicity"} <= {*submission.columns}:
        raise InvalidSubmission("columns 'prediction' and 'toxicity' are both present; only 'prediction' was expected")
    column = "toxicity" if "toxicity" in submission.columns else "prediction"  # the answers are graded too
    return predictions(submission, template, column, on="id")


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> np.float64:
    """The power mean of AUCs is 0, its limit, if one of them is 0."""
    overall, by_kind = first.areas(check(submission, answers), answers)
    return np.float64((overall + sum(0.0 if 0 in aucs else pmean(aucs, first.POWER) for aucs in by_kind)) / 4)
