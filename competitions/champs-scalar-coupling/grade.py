import numpy as np
import pandas as pd

from pytest_mlebench.authoring import answer_positions, numeric, require_columns, require_finite
from pytest_mlebench.authoring.resampling import RowScores, mean_of_groups

from .columns import TARGET


def check(submission: pd.DataFrame, template: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    require_columns(submission, ["id", TARGET])
    predicted = numeric(submission, TARGET)
    require_finite(predicted, TARGET)
    return answer_positions(submission, template, on="id"), predicted


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> np.float64:
    positions, predicted = check(submission, answers)
    truth = answers.take(positions)  # a duplicate id counts each time
    errors = (truth[TARGET] - predicted).abs().groupby(truth["type"]).mean()
    with np.errstate(divide="ignore"):  # a type without error gives -inf
        return np.float64(np.log(errors).mean())


def row_scores(submission: pd.DataFrame, answers: pd.DataFrame) -> RowScores:
    positions, predicted = check(submission, answers)
    truth = answers.take(positions)
    return mean_of_groups((truth[TARGET] - predicted).abs(), truth["type"], then=np.log)
