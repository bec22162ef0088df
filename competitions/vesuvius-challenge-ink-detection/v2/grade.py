from pathlib import Path

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.checks import AS_TEXT, require_whole_runs
from pytest_mlebench.authoring.rle import Runs
from pytest_mlebench.authoring.tables import read_csv

from .. import grade as first
from ..grade import read_template as read_template

READ_OPTIONS = AS_TEXT


def read_answers(path: Path) -> pd.DataFrame:
    return read_csv(path)


def check(submission: pd.DataFrame, template: pd.DataFrame) -> list[Runs]:
    runs = first.check(submission, template)
    require_whole_runs(submission, "Predicted", template["height"] * template["width"])
    return runs


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> np.float64:
    check(submission, answers)
    return first.grade(submission, answers)
