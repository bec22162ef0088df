import numpy as np
import pandas as pd
from sklearn.metrics import mean_absolute_error

from pytest_mlebench.grading import alignment, numeric, require_columns, require_finite


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    require_columns(submission, ["id", "pressure"])
    order = alignment(submission, answers, on="id")
    inspiratory = answers["u_out"].to_numpy() == 0
    scored = np.zeros(len(submission), dtype=bool)
    scored[order[inspiratory]] = True
    # While breathing out anything may be submitted, text too.
    pressure = numeric(submission.assign(pressure=submission["pressure"].astype(object).where(scored, 0.0)), "pressure")
    require_finite(pressure, "pressure")
    return mean_absolute_error(answers["pressure"][inspiratory], pressure[order][inspiratory])
