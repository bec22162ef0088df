import pandas as pd

from pytest_mlebench.authoring import InvalidSubmission

from .. import grade as first
from .labels import LABELS


def check(submission: pd.DataFrame, template: pd.DataFrame) -> "pd.Series[str]":
    labels = first.check(submission, template)
    if (wrong := ~submission["label"].isin(LABELS)).any():
        row = int(wrong.to_numpy().argmax())
        label = str(submission["label"].iloc[row])[:40]
        raise InvalidSubmission(f"column 'label', row {row + 1}: {label!r} is not one of {', '.join(LABELS)}")
    return labels


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    check(submission, answers)
    return first.grade(submission, answers)
