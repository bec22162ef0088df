from typing import Any

import pandas as pd

from pytest_mlebench.grading import InvalidSubmission, align, require_columns, require_not_missing
from pytest_mlebench.grading.metrics.text import word_error_rate


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    require_columns(submission, ["Id", "Sequence"])
    require_not_missing(submission, "Sequence")
    gestures = [_gestures(value, row) for row, value in enumerate(submission["Sequence"], start=1)]
    predicted = align(submission.assign(gestures=gestures), answers, on="Id")["gestures"]
    truth = answers["Sequence"].astype(str).str.split().map(lambda numbers: [int(number) for number in numbers])
    return word_error_rate(truth.tolist(), predicted.tolist())


def _gestures(value: Any, row: int) -> list[int]:
    try:
        return [int(number) for number in str(value).split()]
    except ValueError as error:
        raise InvalidSubmission(
            f"column 'Sequence', row {row}: {str(value)[:60]!r} is not whole numbers separated by spaces"
        ) from error
