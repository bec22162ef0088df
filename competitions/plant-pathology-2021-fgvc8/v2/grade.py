import numpy as np
import pandas as pd

from pytest_mlebench.authoring import align, require_columns
from pytest_mlebench.authoring.checks import AS_TEXT
from pytest_mlebench.authoring.metrics.multilabel import f1_of_samples, f1_samples

READ_OPTIONS = AS_TEXT


def check(submission: pd.DataFrame, template: pd.DataFrame) -> list[frozenset[str]]:
    require_columns(submission, ["image", "labels"])
    return _sets(align(submission, template, on="image"))


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    """Return the mean over images of F1 = 2·TP / (2·TP + FP + FN). Every wrong label is a false positive."""
    return f1_samples(_sets(answers), check(submission, answers))


def row_scores(submission: pd.DataFrame, answers: pd.DataFrame) -> np.ndarray:
    return f1_of_samples(_sets(answers), check(submission, answers))


def _sets(table: pd.DataFrame) -> list[frozenset[str]]:
    return [frozenset(labels.split()) for labels in table["labels"]]
