import numpy as np
import pandas as pd

from pytest_mlebench.grading import answer_positions, numeric, require_columns, require_finite

TARGET = "scalar_coupling_constant"


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    require_columns(submission, ["id", TARGET])
    predicted = numeric(submission, TARGET)
    require_finite(predicted, TARGET)
    truth = answers.take(answer_positions(submission, answers, on="id"))  # a repeated id counts each time
    errors = (truth[TARGET] - predicted).abs().groupby(truth["type"]).mean()
    with np.errstate(divide="ignore"):  # a type without error gives -inf
        return float(np.log(errors).mean())
