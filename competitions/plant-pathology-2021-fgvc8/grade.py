import pandas as pd

from pytest_mlebench.grading import align, label_sets, require_columns
from pytest_mlebench.grading.metrics.multilabel import f1_micro


def check(submission: pd.DataFrame, template: pd.DataFrame) -> list[frozenset[str]]:
    require_columns(submission, ["image", "labels"])
    return label_sets(align(submission, template, on="image"), "labels")


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    return f1_micro(label_sets(answers, "labels"), check(submission, answers), ignore_unseen=True)
