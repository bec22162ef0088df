import numpy as np
import pandas as pd
from sklearn.metrics import root_mean_squared_error

from pytest_mlebench.authoring import predictions
from pytest_mlebench.authoring.resampling import RowScores, root_mean

from ..grade import SCORED
from ..grade import check as check


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> np.float64:
    check(submission, answers)
    keep = answers["keep"].to_numpy()
    predicted = predictions(submission, answers, SCORED, on="id_seqpos")
    return np.float64(root_mean_squared_error(answers[SCORED][keep], predicted[keep]))


def row_scores(submission: pd.DataFrame, answers: pd.DataFrame) -> RowScores:
    keep = answers["keep"].to_numpy()
    errors = answers[SCORED].to_numpy() - predictions(submission, answers, SCORED, on="id_seqpos")
    return root_mean(errors[keep] ** 2, units=answers["id_seqpos"][keep].str.rpartition("_")[0])
