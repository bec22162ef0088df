from pathlib import Path

import numpy as np
import pandas as pd

from pytest_mlebench.authoring import align, require_columns, texts
from pytest_mlebench.authoring.tables import read_csv


def read_template(public: Path) -> pd.DataFrame:
    return read_csv(public / "ru_sample_submission_2.csv.zip", usecols=["id"])


def check(submission: pd.DataFrame, template: pd.DataFrame) -> "pd.Series[str]":
    require_columns(submission, ["id", "after"])
    return texts(align(submission, template, on="id"), "after", missing="nan")


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    spoken = texts(answers, "after", missing="nan")
    return float((spoken == check(submission, answers)).mean())  # accuracy_score would sort a million strings


def row_scores(submission: pd.DataFrame, answers: pd.DataFrame) -> np.ndarray:
    return (texts(answers, "after", missing="nan") == check(submission, answers)).to_numpy()
