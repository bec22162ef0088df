import numpy as np
import pandas as pd

from pytest_mlebench.authoring import align, require_columns, texts
from pytest_mlebench.authoring.metrics.text import levenshtein_distances, mean_levenshtein_distance


def check(submission: pd.DataFrame, template: pd.DataFrame) -> "pd.Series[str]":
    require_columns(submission, ["image_id", "InChI"])
    return texts(align(submission, template, on="image_id"), "InChI", missing="nan")


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> np.float64:
    return np.float64(mean_levenshtein_distance(answers["InChI"], check(submission, answers)))


def row_scores(submission: pd.DataFrame, answers: pd.DataFrame) -> np.ndarray:
    return levenshtein_distances(answers["InChI"], check(submission, answers))
