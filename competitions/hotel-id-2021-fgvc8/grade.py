import numpy as np
import pandas as pd

from pytest_mlebench.authoring import align, ranked_labels, require_columns
from pytest_mlebench.authoring.metrics.ranking import average_precisions_at_k, mean_average_precision_at_k


def check(submission: pd.DataFrame, template: pd.DataFrame) -> list[list[str]]:
    require_columns(submission, ["image", "hotel_id"])
    return ranked_labels(align(submission, template, on="image"), "hotel_id", k=5)


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> np.float64:
    true = [{str(hotel)} for hotel in answers["hotel_id"]]
    return np.float64(mean_average_precision_at_k(true, check(submission, answers), k=5))


def row_scores(submission: pd.DataFrame, answers: pd.DataFrame) -> np.ndarray:
    return average_precisions_at_k([{str(hotel)} for hotel in answers["hotel_id"]], check(submission, answers), k=5)
