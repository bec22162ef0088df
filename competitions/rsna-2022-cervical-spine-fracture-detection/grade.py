from functools import partial

import numpy as np
import pandas as pd

from pytest_mlebench.authoring import predictions
from pytest_mlebench.authoring.metrics.classification import weighted_log_loss, weighted_log_losses

TARGETS = 8  # per study: patient_overall and seven vertebrae

check = partial(predictions, columns="fractured", on="row_id", between=(0, 1))


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> np.float64:
    return np.float64(weighted_log_loss(*_by_study(submission, answers)))


def row_scores(submission: pd.DataFrame, answers: pd.DataFrame) -> np.ndarray:
    return weighted_log_losses(*_by_study(submission, answers))


def _by_study(submission: pd.DataFrame, answers: pd.DataFrame) -> list[np.ndarray]:
    """Return truth, predictions and weights, each of shape (studies, TARGETS)."""
    by_study = answers.assign(prediction=check(submission, answers)).sort_values("StudyInstanceUID", kind="stable")
    truth = by_study["fractured"].to_numpy()
    weights = np.where(by_study["prediction_type"] == "patient_overall", 7, 1) * (1 + truth)
    return [values.reshape(-1, TARGETS) for values in (truth, by_study["prediction"].to_numpy(), weights)]
