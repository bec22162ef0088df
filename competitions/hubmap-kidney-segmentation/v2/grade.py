import numpy as np
import pandas as pd

from pytest_mlebench.data.authoring.rle import Runs
from pytest_mlebench.grading import align
from pytest_mlebench.grading.strict import require_whole_runs

from .v1 import grade as first
from .v1.grade import read_template as read_template


def check(submission: pd.DataFrame, template: pd.DataFrame) -> list[Runs]:
    runs = first.check(submission, template)
    require_whole_runs(submission, "predicted", align(template, submission, on="id")[first.SIZE].prod(axis=1))
    return runs


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> np.float64:
    check(submission, answers)
    return first.grade(submission, answers)
