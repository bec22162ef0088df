import numpy as np
import pandas as pd

from pytest_mlebench.authoring import InvalidSubmission, align, require_columns, texts
from pytest_mlebench.authoring.metrics.text import word_jaccard


def check(submission: pd.DataFrame, template: pd.DataFrame) -> "pd.Series[str]":
    require_columns(submission, ["textID", "selected_text"])
    return texts(align(submission, template, on="textID"), "selected_text")


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> np.float64:
    scores = word_jaccard(texts(answers, "selected_text"), check(submission, answers), zero_division=np.nan)
    if np.isnan(scores).any():
        raise InvalidSubmission("column 'selected_text': a text is empty in a row that needs a word to be scored")
    return np.float64(scores.mean())


def row_scores(submission: pd.DataFrame, answers: pd.DataFrame) -> np.ndarray:
    return word_jaccard(texts(answers, "selected_text"), check(submission, answers))
