from functools import partial

import pandas as pd
from sklearn.metrics import f1_score

from pytest_mlebench.authoring import class_labels

check = partial(class_labels, column="Predicted", on="Id", truncate=True)


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    return f1_score(answers["Predicted"], check(submission, answers), average="macro")
