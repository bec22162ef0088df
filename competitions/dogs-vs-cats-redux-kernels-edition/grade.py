from functools import partial

import numpy as np
import pandas as pd
from sklearn.metrics import log_loss

from pytest_mlebench.authoring import predictions
from pytest_mlebench.authoring.metrics.classification import binary_log_losses

check = partial(predictions, columns="label", on="id", between=(0, 1))


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    return log_loss(answers["label"], check(submission, answers), labels=[0, 1])


def row_scores(submission: pd.DataFrame, answers: pd.DataFrame) -> np.ndarray:
    return binary_log_losses(answers["label"], check(submission, answers))
