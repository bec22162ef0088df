import numpy as np
import pandas as pd

from pytest_mlebench.grading import InvalidSubmission, numeric, require_columns, require_row_count
from pytest_mlebench.grading.metrics.geometry import haversine_distance

POSITION = ["LatitudeDegrees", "LongitudeDegrees"]


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    require_columns(submission, ["tripId", "UnixTimeMillis", *POSITION])
    require_row_count(submission, answers)
    predicted = numeric(submission, POSITION)
    truth = answers[POSITION].to_numpy()
    expected, found = answers.groupby("tripId").indices, submission.groupby("tripId").indices
    scores = []
    for trip, rows in expected.items():
        if len(given := found.get(trip, [])) != len(rows):
            raise InvalidSubmission(f"tripId {trip!r} has {len(given)} rows; {len(rows)} were expected")
        # rows are paired by their place within the trip
        distances = haversine_distance(truth[rows], predicted[given])
        scores.append(np.quantile(distances, [0.5, 0.95]).mean())
    return float(np.mean(scores))
