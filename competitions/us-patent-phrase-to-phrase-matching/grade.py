import numpy as np
import pandas as pd

from pytest_mlebench.authoring import alignment, numeric, require_columns
from pytest_mlebench.authoring.metrics.ranking import pearson
from pytest_mlebench.authoring.resampling import RowScores
from pytest_mlebench.authoring.resampling import pearson as pearson_rows


def check(submission: pd.DataFrame, template: pd.DataFrame) -> np.ndarray:
    require_columns(submission, ["id", "score"])
    return numeric(submission, "score")[alignment(submission, template, on="id")]


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> np.float64:
    # NaN, which is no score, if the correlation is undefined (constant, empty or infinite values)
    return np.float64(pearson(answers["score"], check(submission, answers)))


def row_scores(submission: pd.DataFrame, answers: pd.DataFrame) -> RowScores:
    return pearson_rows(answers["score"], check(submission, answers))
