import numpy as np
import pandas as pd

from pytest_mlebench.grading import InvalidSubmission, align, require_columns, texts
from pytest_mlebench.grading.metrics.text import word_jaccard


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    require_columns(submission, ["textID", "selected_text"])
    selected = texts(align(submission, answers, on="textID"), "selected_text")
    scores = word_jaccard(texts(answers, "selected_text"), selected, zero_division=np.nan)
    if np.isnan(scores).any():
        raise InvalidSubmission("column 'selected_text': a text is empty in a row that cannot be scored without a word")
    return float(scores.mean())
