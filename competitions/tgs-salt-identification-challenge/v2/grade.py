import numpy as np
import pandas as pd

from pytest_mlebench.authoring.checks import require_whole_runs
from pytest_mlebench.authoring.metrics.segmentation import iou
from pytest_mlebench.authoring.rle import Runs

from .. import grade as first
from ..grade import SIDE as SIDE


def check(submission: pd.DataFrame, template: pd.DataFrame) -> list[Runs]:
    masks = first.check(submission, template)
    require_whole_runs(submission, "rle_mask", np.full(len(submission), first.SIDE**2))
    return masks


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> np.float64:
    return np.float64((_overlaps(submission, answers)[:, None] > first.THRESHOLDS).mean())


def row_scores(submission: pd.DataFrame, answers: pd.DataFrame) -> np.ndarray:
    return (_overlaps(submission, answers)[:, None] > first.THRESHOLDS).mean(axis=1)


def _overlaps(submission: pd.DataFrame, answers: pd.DataFrame) -> np.ndarray:
    pairs = zip(first.check(answers, answers), check(submission, answers), strict=True)
    return np.array([iou(*pair, empty=1.0) for pair in pairs])
