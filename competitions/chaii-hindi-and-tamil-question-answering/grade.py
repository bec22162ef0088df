import pandas as pd

from pytest_mlebench.grading import align, require_columns, require_text, texts
from pytest_mlebench.grading.metrics.text import word_jaccard


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    require_columns(submission, ["id", "PredictionString"])
    require_text(submission, "PredictionString")
    predicted = texts(align(submission, answers, on="id"), "PredictionString")
    return float(word_jaccard(texts(answers, "PredictionString"), predicted).mean())
