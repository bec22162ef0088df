import numpy as np
import pandas as pd

from pytest_mlebench.authoring import align, require_columns
from pytest_mlebench.authoring.checks import AS_TEXT
from pytest_mlebench.authoring.metrics.ranking import average_precisions_at_k

READ_OPTIONS = AS_TEXT


def check(submission: pd.DataFrame, template: pd.DataFrame) -> list[list[str]]:
    require_columns(submission, ["image", "hotel_id"])
    return [hotels.split() for hotels in align(submission, template, on="image")["hotel_id"]]


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> np.float64:
    return np.float64(row_scores(submission, answers).mean())


def row_scores(submission: pd.DataFrame, answers: pd.DataFrame) -> np.ndarray:
    return average_precisions_at_k([{hotel} for hotel in answers["hotel_id"]], check(submission, answers), k=5)
