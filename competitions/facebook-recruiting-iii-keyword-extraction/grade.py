from pathlib import Path

import pandas as pd

from pytest_mlebench.authoring import align, label_texts, require_columns
from pytest_mlebench.authoring.metrics.multilabel import f1_micro_of_texts, hits_and_sizes
from pytest_mlebench.authoring.resampling import RowScores, ratio
from pytest_mlebench.authoring.tables import read_csv


def read_answers(path: Path) -> pd.DataFrame:
    return read_csv(path, usecols=["Id", "Tags"])


def read_template(public: Path) -> pd.DataFrame:
    return read_csv(public / "sample_submission.csv", usecols=["Id"])


def check(submission: pd.DataFrame, template: pd.DataFrame) -> "pd.Series[str]":
    require_columns(submission, ["Id", "Tags"])
    return label_texts(align(submission[["Id", "Tags"]], template, on="Id"), "Tags")


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    # As in the reference, a tag that no test question has is not penalised.
    return f1_micro_of_texts(label_texts(answers, "Tags"), check(submission, answers), ignore_unseen=True)


def row_scores(submission: pd.DataFrame, answers: pd.DataFrame) -> RowScores:
    return ratio(*hits_and_sizes(label_texts(answers, "Tags"), check(submission, answers), ignore_unseen=True))
