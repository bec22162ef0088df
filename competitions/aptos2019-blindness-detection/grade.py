from functools import partial

import pandas as pd
from sklearn.metrics import cohen_kappa_score

from pytest_mlebench.grading import class_labels

check = partial(class_labels, column="diagnosis", on="id_code")


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    return cohen_kappa_score(answers["diagnosis"], check(submission, answers), weights="quadratic")
