from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import pmean
from sklearn.metrics import roc_auc_score

from pytest_mlebench.authoring import InvalidSubmission, alignment, numeric, require_columns
from pytest_mlebench.authoring.tables import read_csv

IDENTITIES = ["male", "female", "homosexual_gay_or_lesbian", "christian", "jewish", "muslim", "black", "white"]
IDENTITIES += ["psychiatric_or_mental_illness"]
POWER = -5


def read_answers(path: Path) -> pd.DataFrame:
    return read_csv(path, usecols=["id", "toxicity", *IDENTITIES])


def check(submission: pd.DataFrame, template: pd.DataFrame) -> np.ndarray:
    """Return whether each prediction is at least 0.5, as in the reference. A missing prediction is not."""
    if {"prediction", "toxicity"} <= {*submission.columns}:
        raise InvalidSubmission("columns 'prediction' and 'toxicity' are both present; only 'prediction' was expected")
    column = "toxicity" if "toxicity" in submission.columns else "prediction"  # the answers are graded too
    require_columns(submission, ["id", column])
    return numeric(submission, column)[alignment(submission, template, on="id")] >= 0.5


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> np.float64:
    overall, by_kind = areas(check(submission, answers), answers)
    if any(0 in aucs for aucs in by_kind):
        raise InvalidSubmission(
            "column 'prediction': the AUC of an identity is 0, which leaves its power mean undefined"
        )
    return np.float64((overall + sum(pmean(aucs, POWER) for aucs in by_kind)) / 4)


def areas(predicted: np.ndarray, answers: pd.DataFrame) -> tuple[float, list[list[float]]]:
    """Return the AUC of all rows, and for each kind of subset the AUCs of the identities."""
    toxic, *mentions = (answers[name].to_numpy() >= 0.5 for name in ["toxicity", *IDENTITIES])
    subsets = (
        mentions,  # subgroup
        [mention != toxic for mention in mentions],  # background positive, subgroup negative
        [mention == toxic for mention in mentions],  # background negative, subgroup positive
    )
    overall = roc_auc_score(toxic, predicted)
    return overall, [[roc_auc_score(toxic[rows], predicted[rows]) for rows in kind] for kind in subsets]
