import pandas as pd

from pytest_mlebench.grading import InvalidSubmission, isin, ranked_labels, require_columns
from pytest_mlebench.grading.metrics.ranking import mean_average_precision_at_k


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    require_columns(submission, ["customer_id", "prediction"], exactly=True)
    scored = submission[isin(submission["customer_id"], answers["customer_id"])]
    if not isin(answers["customer_id"], scored["customer_id"]).all():
        # Which customers count is part of the answers: no names here.
        raise InvalidSubmission(
            "column 'customer_id': some customers are missing; a row for each customer of sample_submission.csv was "
            f"expected, the file has {submission['customer_id'].nunique()} different ones"
        )
    # Rows are paired by position, as the reference does: a customer that is given twice shifts all that follow.
    scored = scored.sort_values("customer_id", kind="stable").head(len(answers))
    bought = answers.sort_values("customer_id")["prediction"].astype(str).str.split(" ")
    return mean_average_precision_at_k(list(bought), ranked_labels(scored, "prediction", k=12), k=12)
