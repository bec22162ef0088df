import pandas as pd

from pytest_mlebench.grading import align, label_sets, require_columns
from pytest_mlebench.grading.metrics.multilabel import f1_micro


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    require_columns(submission, ["id", "attribute_ids"])
    predicted = label_sets(align(submission, answers, on="id"), "attribute_ids")
    return f1_micro(label_sets(answers, "attribute_ids"), predicted, ignore_unseen=True)
