import numpy as np
import pandas as pd

from pytest_mlebench.grading import predictions
from pytest_mlebench.grading.metrics.probabilistic import weighted_log_loss

TARGETS = 8  # of a study: patient_overall and seven vertebrae


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    fractured = predictions(submission, answers, "fractured", on="row_id", between=(0, 1))
    by_study = answers.assign(prediction=fractured).sort_values("StudyInstanceUID", kind="stable")
    truth = by_study["fractured"].to_numpy()
    weights = np.where(by_study["prediction_type"] == "patient_overall", 7, 1) * (1 + truth)
    return weighted_log_loss(
        *(values.reshape(-1, TARGETS) for values in (truth, by_study["prediction"].to_numpy(), weights))
    )
