import pandas as pd

from pytest_mlebench.grading import align, ranked_labels, require_columns
from pytest_mlebench.grading.metrics.ranking import mean_average_precision_at_k


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    require_columns(submission, ["image", "hotel_id"])
    hotels = ranked_labels(align(submission, answers, on="image"), "hotel_id", k=5)
    return mean_average_precision_at_k([{str(hotel)} for hotel in answers["hotel_id"]], hotels, k=5)
