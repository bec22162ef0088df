from functools import partial

import numpy as np
import pandas as pd
from sklearn.metrics import accuracy_score

from pytest_mlebench.authoring import class_labels

check = partial(class_labels, column="Cover_Type", on="Id")


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    return accuracy_score(answers["Cover_Type"], check(submission, answers))


def row_scores(submission: pd.DataFrame, answers: pd.DataFrame) -> np.ndarray:
    return check(submission, answers) == answers["Cover_Type"].to_numpy()
