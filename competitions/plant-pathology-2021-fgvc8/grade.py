import pandas as pd

from pytest_mlebench.grading import align, label_sets, require_columns
from pytest_mlebench.grading.metrics.multilabel import f1_micro


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    require_columns(submission, ["image", "labels"])
    predicted = label_sets(align(submission, answers, on="image"), "labels")
    return f1_micro(label_sets(answers, "labels"), predicted, ignore_unseen=True)
