import pandas as pd
from sklearn.metrics import accuracy_score

from pytest_mlebench.grading import align, require_columns, text


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    require_columns(submission, ["image_id", "label"])
    labels = submission.assign(label=text(submission, "label"))  # an empty label is just wrong
    return accuracy_score(answers["label"], align(labels, answers, on="image_id")["label"])
