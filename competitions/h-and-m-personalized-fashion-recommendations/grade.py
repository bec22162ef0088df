import numpy as np
import pandas as pd

from pytest_mlebench.authoring import InvalidSubmission, isin, ranked_labels, require_columns
from pytest_mlebench.authoring.metrics.ranking import average_precisions_at_k, mean_average_precision_at_k


def check(submission: pd.DataFrame, template: pd.DataFrame) -> pd.DataFrame:
    """The rows of the template's customers: all those of sample_submission.csv, of which the answers hold some."""
    require_columns(submission, ["customer_id", "prediction"], exactly=True)
    known = submission[isin(submission["customer_id"], template["customer_id"])]
    if not isin(template["customer_id"], known["customer_id"]).all():
        # Which customers count is part of the answers: no names here.
        raise InvalidSubmission(
            "column 'customer_id': some customers are missing; a row for each customer of sample_submission.csv was "
            f"expected, the file has {submission['customer_id'].nunique()} different ones"
        )
    return known


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> np.float64:
    return np.float64(mean_average_precision_at_k(*_bought_and_ranked(submission, answers), k=12))


def row_scores(submission: pd.DataFrame, answers: pd.DataFrame) -> np.ndarray:
    return average_precisions_at_k(*_bought_and_ranked(submission, answers), k=12)


def _bought_and_ranked(submission: pd.DataFrame, answers: pd.DataFrame) -> tuple[list[list[str]], list[list[str]]]:
    # Rows are paired by position, as the reference does: a customer that is given twice shifts all that follow.
    scored = check(submission, answers).sort_values("customer_id", kind="stable").head(len(answers))
    bought = answers.sort_values("customer_id")["prediction"].astype(str).str.split(" ")
    return list(bought), ranked_labels(scored, "prediction", k=12)
