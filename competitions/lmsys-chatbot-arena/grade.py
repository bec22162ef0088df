from functools import partial

import numpy as np
import pandas as pd

from pytest_mlebench.authoring import class_probabilities
from pytest_mlebench.authoring.metrics.classification import log_loss, log_losses

VERDICTS = ["winner_model_a", "winner_model_b", "winner_tie"]

check = partial(class_probabilities, columns=VERDICTS, on="id", rtol=0, atol=5e-7)


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    return log_loss(answers[VERDICTS], check(submission, answers))


def row_scores(submission: pd.DataFrame, answers: pd.DataFrame) -> np.ndarray:
    return log_losses(answers[VERDICTS], check(submission, answers))
