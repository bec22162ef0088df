import numpy as np
import pandas as pd

from pytest_mlebench.authoring import align, require_columns
from pytest_mlebench.authoring.checks import require_whole_runs

from .. import grade as first
from ..grade import read_template as read_template

KEY = ["id", "class"]


def check(submission: pd.DataFrame, template: pd.DataFrame) -> None:
    pair = _paired(submission, template)
    first.check(*pair)
    _require_whole_runs(*pair)


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> np.float64:
    pair = _paired(submission, answers)
    score = first.grade(*pair)
    _require_whole_runs(*pair)
    return score


def _paired(submission: pd.DataFrame, template: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return both in the submission's order, for row numbers in errors. Each organ of a day becomes a separate day."""
    require_columns(submission, [*KEY, "predicted"])
    align(submission, template, on=KEY)
    matched = align(template, submission, on=KEY)
    return _by_organ(submission), _by_organ(matched)


def _require_whole_runs(submission: pd.DataFrame, images: pd.DataFrame) -> None:
    """Reject odd counts of numbers and runs beyond the image, which version 1 accepts."""
    require_whole_runs(submission, "predicted", images[first.SIZE].prod(axis=1))


def _by_organ(rows: pd.DataFrame) -> pd.DataFrame:
    return rows.assign(id=rows["class"] + " " + rows["id"])
