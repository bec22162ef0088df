import numpy as np
import pandas as pd

from pytest_mlebench.authoring import InvalidSubmission, isin, ranked_labels, require_columns
from pytest_mlebench.authoring.metrics.ranking import average_precisions_at_k, mean_average_precision_at_k


def check(submission: pd.DataFrame, template: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the template's customers: those of sample_submission.csv, or those of the answers."""
    require_columns(submission, ["customer_id", "prediction"], exactly=True)
    known = submission[isin(submission["customer_id"], template["customer_id"])]
    if not isin(template["customer_id"], known["customer_id"]).all():
        # Do not name customers: which ones count is part of the answers.
        raise InvalidSubmission(
            "column 'customer_id': some customers are missing; a row for each customer of sample_submission.csv was "
            f"expected, but the file has {submission['customer_id'].nunique()} different customers"
        )
    return known


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> np.float64:
    return np.float64(mean_average_precision_at_k(*_bought_and_ranked(submission, answers), k=12))


def row_scores(submission: pd.DataFrame, answers: pd.DataFrame) -> np.ndarray:
    return average_precisions_at_k(*_bought_and_ranked(submission, answers), k=12)


def _bought_and_ranked(submission: pd.DataFrame, answers: pd.DataFrame) -> tuple[list[list[str]], list[list[str]]]:
    # As in the reference, rows are paired by position: a duplicate customer shifts all following rows.
    scored = check(submission, answers).sort_values("customer_id", kind="stable").head(len(answers))
    bought = answers.sort_values("customer_id")["prediction"].astype(str).str.split(" ")
    return list(bought), ranked_labels(scored, "prediction", k=12)
