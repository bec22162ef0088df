import pandas as pd
from sklearn.metrics import zero_one_loss

from pytest_mlebench.grading import InvalidSubmission, class_labels, require_columns, require_not_missing


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    require_columns(submission, ["id", "predicted"])
    require_not_missing(submission, "predicted")
    predicted = submission["predicted"]
    if predicted.dtype == bool:
        predicted = predicted.astype(int)
    first = predicted.astype(str).str.split().str[0]
    wrong = ~first.str.fullmatch(r"[+-]?[0-9]+", na=False).to_numpy(dtype=bool)
    if wrong.any():
        row = int(wrong.argmax())
        raise InvalidSubmission(
            f"column 'predicted', row {row + 1}: {str(predicted.iloc[row])[:60]!r} does not begin with a category id, "
            "an integer without decimal point (more may follow after a blank)"
        )
    species = class_labels(submission.assign(predicted=first), answers, "predicted", on="id")
    return zero_one_loss(answers["predicted"], species)
