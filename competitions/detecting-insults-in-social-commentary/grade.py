import numpy as np
import pandas as pd
from sklearn.metrics import roc_auc_score

from pytest_mlebench.authoring import predictions, require_columns, require_not_missing
from pytest_mlebench.authoring.resampling import RowScores, roc_auc


def check(submission: pd.DataFrame, template: pd.DataFrame) -> np.ndarray:
    require_columns(submission, ["Comment", "Insult"])
    require_not_missing(submission, "Comment")
    numbered = _number_duplicates(submission), _number_duplicates(template)
    return predictions(*numbered, "Insult", on=["Comment", "occurrence"], between=(0, 1))


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    return roc_auc_score(answers["Insult"], check(submission, answers))


def row_scores(submission: pd.DataFrame, answers: pd.DataFrame) -> RowScores:
    return roc_auc(answers["Insult"], check(submission, answers))


def _number_duplicates(table: pd.DataFrame) -> pd.DataFrame:
    """Number equal comments, because comments serve as ids: the first of them matches the first, and so on."""
    return table.assign(occurrence=table.groupby("Comment").cumcount() + 1)
