from functools import partial

import pandas as pd

from pytest_mlebench.grading import class_labels
from pytest_mlebench.grading.metrics.classification import matthews_corrcoef

check = partial(class_labels, column="contact", on="contact_id")


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    return matthews_corrcoef(answers["contact"], check(submission, answers))
