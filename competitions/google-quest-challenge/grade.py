import numpy as np
import pandas as pd

from pytest_mlebench.authoring import require_columns, require_row_count
from pytest_mlebench.authoring.metrics.ranking import spearman


def check(submission: pd.DataFrame, template: pd.DataFrame) -> None:
    require_columns(submission, list(template.columns), exactly=True)
    require_row_count(submission, template)


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> np.float64:
    check(submission, answers)
    # As in the reference, ids only order the rows, and values are only ranked: neither is checked.
    targets = answers.columns.drop("qa_id")
    truth, predicted = (table.sort_values("qa_id")[targets] for table in (answers, submission))
    return np.float64(spearman(truth, predicted).mean())
