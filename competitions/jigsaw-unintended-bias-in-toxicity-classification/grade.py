from pathlib import Path

import pandas as pd
from scipy.stats import pmean
from sklearn.metrics import roc_auc_score

from pytest_mlebench.data.tables import read_csv
from pytest_mlebench.grading import InvalidSubmission, alignment, numeric, require_columns

IDENTITIES = ["male", "female", "homosexual_gay_or_lesbian", "christian", "jewish", "muslim", "black", "white"]
IDENTITIES += ["psychiatric_or_mental_illness"]
POWER = -5


def read_answers(path: Path) -> pd.DataFrame:
    return read_csv(path, usecols=["id", "toxicity", *IDENTITIES])


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    if {"prediction", "toxicity"} <= {*submission.columns}:
        raise InvalidSubmission("columns 'prediction' and 'toxicity' are both there; only 'prediction' was expected")
    column = "toxicity" if "toxicity" in submission.columns else "prediction"  # so that the answers can be graded
    require_columns(submission, ["id", column])
    # The reference cuts predictions to labels, too; a missing one is below the cut.
    predicted = numeric(submission, column)[alignment(submission, answers, on="id")] >= 0.5
    toxic, *mentions = (answers[name].to_numpy() >= 0.5 for name in ["toxicity", *IDENTITIES])
    subsets = (
        mentions,  # subgroup
        [mention != toxic for mention in mentions],  # background positive, subgroup negative
        [mention == toxic for mention in mentions],  # background negative, subgroup positive
    )
    overall = roc_auc_score(toxic, predicted)
    by_kind = [[roc_auc_score(toxic[rows], predicted[rows]) for rows in kind] for kind in subsets]
    if any(0 in aucs for aucs in by_kind):
        raise InvalidSubmission(
            f"column {column!r}: the AUC of an identity is 0, which leaves its power mean undefined"
        )
    return (overall + sum(pmean(aucs, POWER) for aucs in by_kind)) / 4
