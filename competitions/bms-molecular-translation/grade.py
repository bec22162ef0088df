import pandas as pd

from pytest_mlebench.grading import align, require_columns, texts
from pytest_mlebench.grading.metrics.text import mean_levenshtein_distance


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    require_columns(submission, ["image_id", "InChI"])
    predicted = texts(align(submission, answers, on="image_id"), "InChI", missing="nan")
    return mean_levenshtein_distance(answers["InChI"], predicted)
