from pathlib import Path

import numpy as np
import pandas as pd

from pytest_mlebench.authoring import align, require_columns, require_not_missing, require_text, texts
from pytest_mlebench.authoring.metrics.text import levenshtein_distances, mean_levenshtein_distance
from pytest_mlebench.authoring.tables import read_csv


def read_template(public: Path) -> pd.DataFrame:
    return read_csv(public / "test_v2.txt.zip", usecols=["id"])


def check(submission: pd.DataFrame, template: pd.DataFrame) -> "pd.Series[str]":
    require_columns(submission, ["id", "sentence"])
    require_not_missing(submission, "sentence")
    require_text(submission, "sentence")
    return texts(align(submission, template, on="id"), "sentence")


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> np.float64:
    return np.float64(mean_levenshtein_distance(texts(answers, "sentence"), check(submission, answers)))


def row_scores(submission: pd.DataFrame, answers: pd.DataFrame) -> np.ndarray:
    return levenshtein_distances(texts(answers, "sentence"), check(submission, answers))
