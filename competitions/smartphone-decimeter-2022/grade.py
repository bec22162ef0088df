import numpy as np
import pandas as pd

from pytest_mlebench.authoring import InvalidSubmission, numeric, require_columns, require_row_count
from pytest_mlebench.authoring.metrics.detection import haversine_distance

POSITION = ["LatitudeDegrees", "LongitudeDegrees"]


def check(submission: pd.DataFrame, template: pd.DataFrame) -> list[np.ndarray]:
    """Return the predicted positions of each trip."""
    require_columns(submission, ["tripId", "UnixTimeMillis", *POSITION])
    require_row_count(submission, template)
    predicted = numeric(submission, POSITION)
    found = submission.groupby("tripId").indices
    trips = []
    for trip, rows in template.groupby("tripId").indices.items():
        if len(given := found.get(trip, [])) != len(rows):
            raise InvalidSubmission(f"tripId {trip!r} has {len(given)} rows; {len(rows)} were expected")
        trips.append(predicted[given])
    return trips


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> np.float64:
    return np.float64(np.mean(_of_trips(submission, answers)))


def row_scores(submission: pd.DataFrame, answers: pd.DataFrame) -> np.ndarray:
    return _of_trips(submission, answers)


def _of_trips(submission: pd.DataFrame, answers: pd.DataFrame) -> np.ndarray:
    positions = answers[POSITION].to_numpy()
    truth = [positions[rows] for rows in answers.groupby("tripId").indices.values()]
    # rows are paired by position within a trip
    distances = [haversine_distance(*trip) for trip in zip(truth, check(submission, answers), strict=True)]
    return np.array([np.quantile(errors, [0.5, 0.95]).mean() for errors in distances])
