from functools import partial

import pandas as pd

from pytest_mlebench.authoring import class_labels
from pytest_mlebench.authoring.metrics.classification import matthews_corrcoef
from pytest_mlebench.authoring.resampling import RowScores, confusion, matthews

check = partial(class_labels, column="contact", on="contact_id")


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    return matthews_corrcoef(answers["contact"], check(submission, answers))


def row_scores(submission: pd.DataFrame, answers: pd.DataFrame) -> RowScores:
    plays = answers["contact_id"].str.split("_").str[:2].str.join("_")
    return confusion(answers["contact"], check(submission, answers), matthews, units=plays)
