from pathlib import Path

import pandas as pd

from pytest_mlebench.data.tables import read_csv
from pytest_mlebench.grading import align, label_sets, require_columns
from pytest_mlebench.grading.metrics.multilabel import f1_micro


def read_answers(path: Path) -> pd.DataFrame:
    return read_csv(path, usecols=["Id", "Tags"])


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    require_columns(submission, ["Id", "Tags"])
    predicted = label_sets(align(submission[["Id", "Tags"]], answers, on="Id"), "Tags")
    # As in the reference, a tag that no test question has costs nothing.
    return f1_micro(label_sets(answers, "Tags"), predicted, ignore_unseen=True)
