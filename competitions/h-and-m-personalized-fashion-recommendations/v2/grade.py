import numpy as np
import pandas as pd

from pytest_mlebench.authoring import InvalidSubmission, isin, require_columns
from pytest_mlebench.authoring.checks import AS_TEXT
from pytest_mlebench.authoring.metrics.ranking import average_precisions_at_k

READ_OPTIONS = AS_TEXT


def check(submission: pd.DataFrame, template: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the template's customers in its order: those of sample_submission.csv, or of the answers."""
    require_columns(submission, ["customer_id", "prediction"])
    ids = submission["customer_id"]
    if (duplicate := ids.duplicated()).any():
        raise InvalidSubmission(f"customer_id {ids[duplicate].iloc[0][:80]!r} occurs more than once")
    if not isin(template["customer_id"], ids).all():
        # Do not name customers: which ones count is part of the answers.
        raise InvalidSubmission(
            "column 'customer_id': some customers are missing; a row for each customer of sample_submission.csv was "
            f"expected, but the file has {len(ids)} different customers"
        )
    return submission.take(pd.Index(ids).get_indexer(pd.Index(template["customer_id"])))


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> np.float64:
    return np.float64(row_scores(submission, answers).mean())


def row_scores(submission: pd.DataFrame, answers: pd.DataFrame) -> np.ndarray:
    return average_precisions_at_k(_articles(answers), _articles(check(submission, answers)), k=12)


def _articles(table: pd.DataFrame) -> list[list[str]]:
    """Return the articles of each row, without leading zeros."""
    return [[article.lstrip("0") for article in articles.split()] for articles in table["prediction"].tolist()]
