import numpy as np
import pandas as pd

from pytest_mlebench.authoring.checks import AS_TEXT
from pytest_mlebench.authoring.metrics.text import word_jaccard

from ..grade import check as check

READ_OPTIONS = AS_TEXT


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> np.float64:
    return np.float64(word_jaccard(answers["selected_text"], check(submission, answers), zero_division=1.0).mean())


def row_scores(submission: pd.DataFrame, answers: pd.DataFrame) -> np.ndarray:
    return word_jaccard(answers["selected_text"], check(submission, answers), zero_division=1.0)
