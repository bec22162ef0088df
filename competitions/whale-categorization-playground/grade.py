import pandas as pd

from pytest_mlebench.grading import align, ranked_labels, require_columns
from pytest_mlebench.grading.metrics.ranking import mean_average_precision_at_k


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    require_columns(submission, ["Image", "Id"], exactly=True)
    whales = ranked_labels(align(submission, answers, on="Image"), "Id", k=5)
    return mean_average_precision_at_k([{whale} for whale in answers["Id"]], whales, k=5)
