import pandas as pd

from pytest_mlebench.grading import align, require_columns
from pytest_mlebench.grading.metrics.multilabel import f1_micro
from pytest_mlebench.grading.strict import AS_TEXT

READ_OPTIONS = AS_TEXT


def check(submission: pd.DataFrame, template: pd.DataFrame) -> list[frozenset[str]]:
    require_columns(submission, ["id", "attribute_ids"])
    return _sets(align(submission, template, on="id"))


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    return f1_micro(_sets(answers), check(submission, answers))


def _sets(table: pd.DataFrame) -> list[frozenset[str]]:
    return [frozenset(labels.split()) for labels in table["attribute_ids"]]
