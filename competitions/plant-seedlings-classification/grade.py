import numpy as np
import pandas as pd
from sklearn.metrics import f1_score

from pytest_mlebench.authoring import InvalidSubmission, align, require_columns, require_text, texts


def check(submission: pd.DataFrame, template: pd.DataFrame) -> "pd.Series[str]":
    require_columns(submission, ["file", "species"])
    require_text(submission, "species")
    species = texts(align(submission, template, on="file"), "species")  # an empty field counts as wrong
    if not species.any():
        raise InvalidSubmission("column 'species' is empty in every row")
    return species


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    species = check(submission, answers)
    # Replace unknown species: scikit-learn creates arrays as wide as the longest name.
    return f1_score(answers["species"], species.where(species.isin(answers["species"]), ""), average="micro")


def row_scores(submission: pd.DataFrame, answers: pd.DataFrame) -> np.ndarray:
    return check(submission, answers).to_numpy() == answers["species"].to_numpy()
