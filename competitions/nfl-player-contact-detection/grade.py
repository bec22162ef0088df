import numpy as np
import pandas as pd
from sklearn.metrics import matthews_corrcoef

from pytest_mlebench.grading import InvalidSubmission, numeric, predictions, require_columns


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    require_columns(submission, ["contact_id", "contact"])
    values = numeric(submission, "contact")
    if (fractions := np.isfinite(values) & (values % 1 != 0)).any():
        row = fractions.argmax()
        raise InvalidSubmission(f"column 'contact', row {row + 1}: {values[row]} is neither 0 nor 1")
    return matthews_corrcoef(answers["contact"], predictions(submission, answers, "contact", on="contact_id"))
