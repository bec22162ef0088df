import pandas as pd
from sklearn.metrics import matthews_corrcoef

from pytest_mlebench.grading import class_labels


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    contact = class_labels(submission, answers, "contact", on="contact_id")
    return matthews_corrcoef(answers["contact"], contact)
