from pathlib import Path

import numpy as np
import pandas as pd

from pytest_mlebench.authoring import InvalidSubmission, align, require_columns
from pytest_mlebench.authoring.checks import AS_TEXT
from pytest_mlebench.authoring.metrics.text import levenshtein_distances, mean_levenshtein_distance
from pytest_mlebench.authoring.tables import read_csv

READ_OPTIONS = AS_TEXT


def read_template(public: Path) -> pd.DataFrame:
    return read_csv(public / "test_v2.txt.zip", usecols=["id"], **AS_TEXT)


def check(submission: pd.DataFrame, template: pd.DataFrame) -> "pd.Series[str]":
    require_columns(submission, ["id", "sentence"])
    if (empty := submission["sentence"] == "").any():
        raise InvalidSubmission(f"column 'sentence', row {empty.argmax() + 1}: the sentence is missing")
    return align(submission, template, on="id")["sentence"]


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> np.float64:
    return np.float64(mean_levenshtein_distance(answers["sentence"], check(submission, answers)))


def row_scores(submission: pd.DataFrame, answers: pd.DataFrame) -> np.ndarray:
    return levenshtein_distances(answers["sentence"], check(submission, answers))
