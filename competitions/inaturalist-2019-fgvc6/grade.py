import numpy as np
import pandas as pd
from sklearn.metrics import zero_one_loss

from pytest_mlebench.authoring import InvalidSubmission, class_labels, require_columns, require_not_missing


def check(submission: pd.DataFrame, template: pd.DataFrame) -> np.ndarray:
    require_columns(submission, ["id", "predicted"])
    require_not_missing(submission, "predicted")
    predicted = submission["predicted"]
    if predicted.dtype == bool:
        predicted = predicted.astype(int)
    first = predicted.astype(str).str.extract(r"^\s*([+-]?[0-9]+)(?!\S)", expand=False)
    wrong = first.isna().to_numpy()
    if wrong.any():
        row = int(wrong.argmax())
        raise InvalidSubmission(
            f"column 'predicted', row {row + 1}: {str(predicted.iloc[row])[:60]!r} does not begin with a category id, "
            "which is an integer without a decimal point (anything after a space is ignored)"
        )
    return class_labels(submission.assign(predicted=first), template, "predicted", on="id")


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    return zero_one_loss(answers["predicted"], check(submission, answers))


def row_scores(submission: pd.DataFrame, answers: pd.DataFrame) -> np.ndarray:
    return check(submission, answers) != answers["predicted"].to_numpy()
