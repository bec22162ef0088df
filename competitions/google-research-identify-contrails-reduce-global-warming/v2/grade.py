import numpy as np
import pandas as pd

from pytest_mlebench.authoring import align
from pytest_mlebench.authoring.checks import require_whole_runs
from pytest_mlebench.authoring.resampling import RowScores
from pytest_mlebench.authoring.rle import Runs

from .. import grade as first


def check(submission: pd.DataFrame, template: pd.DataFrame) -> Runs:
    runs = first.check(submission, template)
    images = align(template, submission, on="record_id")
    masks = submission.replace({"encoded_pixels": {"-": ""}})
    require_whole_runs(masks, "encoded_pixels", images["height"] * images["width"])
    return runs


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> np.float64:
    check(submission, answers)
    return first.grade(submission, answers)


def row_scores(submission: pd.DataFrame, answers: pd.DataFrame) -> RowScores:
    check(submission, answers)
    return first.row_scores(submission, answers)
