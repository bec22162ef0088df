from functools import partial

import pandas as pd
from sklearn.metrics import accuracy_score

from pytest_mlebench.authoring import class_labels
from pytest_mlebench.authoring.resampling import RowScores, mean_of

check = partial(class_labels, column="Transported", on="PassengerId")  # True and False count as 1 and 0


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    return accuracy_score(answers["Transported"].astype(int), check(submission, answers))


def row_scores(submission: pd.DataFrame, answers: pd.DataFrame) -> RowScores:
    right = check(submission, answers) == answers["Transported"].astype(int).to_numpy()
    return mean_of(right, units=answers["PassengerId"].str.partition("_")[0])  # resample whole travel groups
