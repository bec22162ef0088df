import numpy as np
import pandas as pd

from pytest_mlebench.authoring import align, require_columns
from pytest_mlebench.authoring.checks import AS_TEXT
from pytest_mlebench.authoring.metrics.text import word_jaccard

READ_OPTIONS = AS_TEXT


def check(submission: pd.DataFrame, template: pd.DataFrame) -> "pd.Series[str]":
    require_columns(submission, ["id", "PredictionString"])
    return align(submission, template, on="id")["PredictionString"]


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    return float(word_jaccard(answers["PredictionString"], check(submission, answers)).mean())


def row_scores(submission: pd.DataFrame, answers: pd.DataFrame) -> np.ndarray:
    return word_jaccard(answers["PredictionString"], check(submission, answers))
