import numpy as np
import pandas as pd
from sklearn.metrics import accuracy_score

from pytest_mlebench.authoring import class_labels, require_columns, require_row_count


def check(submission: pd.DataFrame, template: pd.DataFrame) -> np.ndarray:
    require_columns(submission, ["Id", "Category"])
    require_row_count(submission, template)
    submission, template = (table.assign(Id=_distinct(table["Id"])) for table in (submission, template))
    return class_labels(submission, template, "Category", on="Id")


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    return accuracy_score(answers["Category"], check(submission, answers))


def row_scores(submission: pd.DataFrame, answers: pd.DataFrame) -> np.ndarray:
    return check(submission, answers) == answers["Category"].to_numpy()


def _distinct(ids: pd.Series) -> pd.Series:
    """Make ids unique: later rows of an image with several annotations get numbered ids."""
    earlier = ids.groupby(ids, dropna=False).cumcount()
    return ids.where(earlier == 0, ids.astype(str) + " (row " + (earlier + 1).astype(str) + " of this id)")
