import numpy as np
import pandas as pd

from pytest_mlebench.authoring import align, require_columns, require_text, texts
from pytest_mlebench.authoring.metrics.text import word_jaccard


def check(submission: pd.DataFrame, template: pd.DataFrame) -> "pd.Series[str]":
    require_columns(submission, ["id", "PredictionString"])
    require_text(submission, "PredictionString")
    return texts(align(submission, template, on="id"), "PredictionString")


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    return float(word_jaccard(texts(answers, "PredictionString"), check(submission, answers)).mean())


def row_scores(submission: pd.DataFrame, answers: pd.DataFrame) -> np.ndarray:
    return word_jaccard(texts(answers, "PredictionString"), check(submission, answers))
