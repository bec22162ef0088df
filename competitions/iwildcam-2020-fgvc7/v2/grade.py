from functools import partial

import numpy as np
import pandas as pd
from sklearn.metrics import accuracy_score

from pytest_mlebench.authoring import class_labels

check = partial(class_labels, column="Category", on="Id")


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    return accuracy_score(answers["Category"], check(submission, answers))


def row_scores(submission: pd.DataFrame, answers: pd.DataFrame) -> np.ndarray:
    return check(submission, answers) == answers["Category"].to_numpy()
