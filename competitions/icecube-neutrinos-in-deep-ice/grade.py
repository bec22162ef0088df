import numpy as np
import pandas as pd

from pytest_mlebench.authoring import InvalidSubmission, alignment, numeric, require_columns, require_finite
from pytest_mlebench.authoring.metrics.detection import angular_error

from .columns import ANGLES

ROWS = 1 << 16  # per chunk: a copy of all thirteen million takes hundreds of megabytes


def check(submission: pd.DataFrame, template: pd.DataFrame) -> tuple[list[np.ndarray], np.ndarray]:
    """Return the angles in the order of the submission, and the position in it of each event of the template."""
    require_columns(submission, ["event_id", *ANGLES], exactly=True)
    for angle in ANGLES:
        if submission[angle].dtype == bool:
            raise InvalidSubmission(f"column {angle!r} contains True and False; numbers were expected")
    predicted = [numeric(submission, angle) for angle in ANGLES]
    for angle, values in zip(ANGLES, predicted, strict=True):
        require_finite(values, angle)
    return predicted, alignment(submission, template, on="event_id")


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> np.float64:
    return np.float64(row_scores(submission, answers).mean())


def row_scores(submission: pd.DataFrame, answers: pd.DataFrame) -> np.ndarray:
    predicted, positions = check(submission, answers)
    true = [answers[angle].to_numpy() for angle in ANGLES]
    errors = np.empty(len(answers))
    for start in range(0, len(answers), ROWS):
        rows = slice(start, start + ROWS)
        aligned = [values.take(positions[rows]) for values in predicted]
        errors[rows] = angular_error(np.column_stack([values[rows] for values in true]), np.column_stack(aligned))
    return errors
