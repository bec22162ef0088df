import numpy as np
import pandas as pd
from sklearn.metrics import mean_absolute_error

from pytest_mlebench.authoring import InvalidSubmission, answer_positions, numeric, require_columns, require_finite
from pytest_mlebench.authoring.resampling import RowScores, mean_of


def check(submission: pd.DataFrame, template: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    require_columns(submission, ["segment_id", "time_to_eruption"])
    predicted = numeric(submission, "time_to_eruption")
    require_finite(predicted, "time_to_eruption")
    return answer_positions(submission, template, on="segment_id"), predicted


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    positions, predicted = check(submission, answers)
    truth = answers.take(positions)  # a duplicate id counts each time
    error = mean_absolute_error(truth["time_to_eruption"], predicted)
    if not np.isfinite(error):
        raise InvalidSubmission("column 'time_to_eruption': the values are too large to compute their mean error")
    return round(error)


def row_scores(submission: pd.DataFrame, answers: pd.DataFrame) -> RowScores:
    positions, predicted = check(submission, answers)
    return mean_of(np.abs(answers["time_to_eruption"].to_numpy()[positions] - predicted), then=np.rint)
