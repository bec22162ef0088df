import pandas as pd
from sklearn.metrics import mean_absolute_error

from pytest_mlebench.grading import numeric, require_columns, require_finite, require_same_ids


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    require_columns(submission, ["segment_id", "time_to_eruption"])
    predicted = numeric(submission, "time_to_eruption")
    require_finite(predicted, "time_to_eruption")
    require_same_ids(submission, answers, on="segment_id")
    # a segment that is given twice counts twice
    truth = answers.set_index("segment_id")["time_to_eruption"].loc[submission["segment_id"]]
    return round(mean_absolute_error(truth, predicted))
