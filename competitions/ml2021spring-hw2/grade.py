from functools import partial

import pandas as pd
from sklearn.metrics import accuracy_score

from pytest_mlebench.grading import class_labels

check = partial(class_labels, column="ClassId", on="Id")


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    return accuracy_score(answers["ClassId"], check(submission, answers))
