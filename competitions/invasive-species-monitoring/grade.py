from functools import partial
from pathlib import Path

import pandas as pd
from sklearn.metrics import roc_auc_score

from pytest_mlebench.authoring import predictions
from pytest_mlebench.authoring.resampling import RowScores, roc_auc
from pytest_mlebench.authoring.tables import read_csv

check = partial(predictions, columns="invasive", on="name", between=(0, 1))


def read_template(public: Path) -> pd.DataFrame:
    return read_csv(public / "sample_submission.csv.zip")


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    return roc_auc_score(answers["invasive"], check(submission, answers))


def row_scores(submission: pd.DataFrame, answers: pd.DataFrame) -> RowScores:
    return roc_auc(answers["invasive"], check(submission, answers))
