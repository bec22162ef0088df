import pandas as pd

from pytest_mlebench.grading import align, require_columns, require_not_missing, require_text, texts
from pytest_mlebench.grading.metrics.text import mean_levenshtein_distance


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    require_columns(submission, ["id", "sentence"])
    require_not_missing(submission, "sentence")
    require_text(submission, "sentence")
    sentences = texts(align(submission, answers, on="id"), "sentence")
    return mean_levenshtein_distance(texts(answers, "sentence"), sentences)
