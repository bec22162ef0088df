import pandas as pd

from pytest_mlebench.authoring import align, label_texts, require_columns
from pytest_mlebench.authoring.metrics.multilabel import f1_micro_of_texts, hits_and_sizes
from pytest_mlebench.authoring.resampling import RowScores, ratio


def check(submission: pd.DataFrame, template: pd.DataFrame) -> "pd.Series[str]":
    require_columns(submission, ["id", "attribute_ids"])
    return label_texts(align(submission, template, on="id"), "attribute_ids")


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    return f1_micro_of_texts(label_texts(answers, "attribute_ids"), check(submission, answers), ignore_unseen=True)


def row_scores(submission: pd.DataFrame, answers: pd.DataFrame) -> RowScores:
    true = label_texts(answers, "attribute_ids")
    return ratio(*hits_and_sizes(true, check(submission, answers), ignore_unseen=True))
