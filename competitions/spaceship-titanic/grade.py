from functools import partial

import pandas as pd
from sklearn.metrics import accuracy_score

from pytest_mlebench.grading import class_labels

check = partial(class_labels, column="Transported", on="PassengerId")  # True and False are 1 and 0


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    return accuracy_score(answers["Transported"].astype(int), check(submission, answers))
