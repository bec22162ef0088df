from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.metrics import log_loss

from pytest_mlebench.authoring import predictions
from pytest_mlebench.authoring.archives import read_7z
from pytest_mlebench.authoring.metrics.classification import binary_log_losses
from pytest_mlebench.authoring.tables import read_csv

check = partial(predictions, columns="is_iceberg", on="id", between=(0, 1))


def read_template(public: Path) -> pd.DataFrame:
    return read_csv(read_7z(public / "sample_submission.csv.7z", "sample_submission.csv"))


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    return log_loss(answers["is_iceberg"], check(submission, answers), labels=[0, 1])


def row_scores(submission: pd.DataFrame, answers: pd.DataFrame) -> np.ndarray:
    return binary_log_losses(answers["is_iceberg"], check(submission, answers))
