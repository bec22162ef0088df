from pathlib import Path

import pandas as pd

from pytest_mlebench.data.tables import read_csv
from pytest_mlebench.grading import align, require_columns, require_text, texts
from pytest_mlebench.grading.metrics.text import micro_f1


def read_answers(path: Path) -> pd.DataFrame:
    return read_csv(path, usecols=["Id", "Tags"])


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    require_columns(submission, ["Id", "Tags"])
    require_text(submission, "Tags")
    true = texts(answers, "Tags")
    predicted = texts(align(submission[["Id", "Tags"]], answers, on="Id"), "Tags")
    # As in the reference, a tag that no test question has costs nothing.
    return micro_f1(map(str.split, true), map(str.split, predicted), labels=set(" ".join(true).split()))
