from pathlib import Path

import numpy as np
import pandas as pd

from pytest_mlebench.authoring import align, require_columns
from pytest_mlebench.authoring.checks import AS_TEXT
from pytest_mlebench.authoring.metrics.multilabel import f1_of_samples, f1_samples
from pytest_mlebench.authoring.tables import read_csv

READ_OPTIONS = AS_TEXT


def read_answers(path: Path) -> pd.DataFrame:
    return read_csv(path, usecols=["Id", "Tags"], **AS_TEXT)


def read_template(public: Path) -> pd.DataFrame:
    return read_csv(public / "sample_submission.csv", usecols=["Id"], **AS_TEXT)


def check(submission: pd.DataFrame, template: pd.DataFrame) -> list[frozenset[str]]:
    require_columns(submission, ["Id", "Tags"])
    return _sets(align(submission[["Id", "Tags"]], template, on="Id"))


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> np.float64:
    return np.float64(f1_samples(_sets(answers), check(submission, answers)))


def row_scores(submission: pd.DataFrame, answers: pd.DataFrame) -> np.ndarray:
    return f1_of_samples(_sets(answers), check(submission, answers))


def _sets(table: pd.DataFrame) -> list[frozenset[str]]:
    return [frozenset(tags.split()) for tags in table["Tags"]]
