import pandas as pd

from pytest_mlebench.authoring import align, require_columns
from pytest_mlebench.authoring.checks import AS_TEXT

READ_OPTIONS = AS_TEXT


def check(submission: pd.DataFrame, template: pd.DataFrame) -> "pd.Series[str]":
    require_columns(submission, ["id", "after"])
    return align(submission, template, on="id")["after"]


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    return float((answers["after"] == check(submission, answers)).mean())
