import numpy as np
import pandas as pd

from pytest_mlebench.grading import align, require_columns
from pytest_mlebench.grading.metrics.text import word_jaccard
from pytest_mlebench.grading.strict import AS_TEXT

READ_OPTIONS = AS_TEXT


def check(submission: pd.DataFrame, template: pd.DataFrame) -> "pd.Series[str]":
    require_columns(submission, ["id", "PredictionString"])
    return align(submission, template, on="id")["PredictionString"]


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    return float(word_jaccard(answers["PredictionString"], check(submission, answers)).mean())


def row_scores(submission: pd.DataFrame, answers: pd.DataFrame) -> np.ndarray:
    return word_jaccard(answers["PredictionString"], check(submission, answers))
