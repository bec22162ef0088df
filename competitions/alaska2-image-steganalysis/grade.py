from functools import partial

import numpy as np
import pandas as pd

from pytest_mlebench.authoring import predictions
from pytest_mlebench.authoring.metrics.classification import weighted_roc_auc

check = partial(predictions, columns="Label", on="Id")


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> np.float64:
    return np.float64(
        weighted_roc_auc(answers["Label"], check(submission, answers), tpr_thresholds=(0, 0.4, 1), weights=(2, 1))
    )
