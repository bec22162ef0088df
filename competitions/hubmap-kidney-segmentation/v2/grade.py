import numpy as np
import pandas as pd

from pytest_mlebench.authoring import align
from pytest_mlebench.authoring.checks import require_whole_runs
from pytest_mlebench.authoring.rle import Runs

from .. import grade as first
from ..grade import read_template as read_template


def check(submission: pd.DataFrame, template: pd.DataFrame) -> list[Runs]:
    runs = first.check(submission, template)
    require_whole_runs(submission, "predicted", align(template, submission, on="id")[first.SIZE].prod(axis=1))
    return runs


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> np.float64:
    check(submission, answers)
    return first.grade(submission, answers)
