"""Requirements that the first version's graders do not make, and corrected ones do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from pytest_mlebench.errors import InvalidSubmission

AS_TEXT: dict[str, Any] = {"dtype": str, "keep_default_na": False}
"""``READ_OPTIONS`` of a grader whose values are text: numbers stay as they are written, and "null" stays a word."""


def require_whole_runs(submission: pd.DataFrame, column: str, sizes: ArrayLike | None = None) -> None:
    """Run lengths must be pairs of start and length, and end within the mask of so many pixels, where that is given.

    For texts that ``decode_rle`` has accepted, which leaves out what lies beyond. ``sizes`` has the shape (rows,).
    """
    limits = np.full(len(submission), np.inf) if sizes is None else np.asarray(sizes)
    for row, (text, size) in enumerate(zip(submission[column], limits, strict=True), start=1):
        numbers = _numbers(text)
        if len(numbers) % 2:
            raise InvalidSubmission(f"column {column!r}, row {row}: run lengths have {len(numbers)} numbers, not pairs")
        ends = [start + length - 1 for start, length in zip(numbers[::2], numbers[1::2], strict=True)]
        if ends and max(ends) > size:
            raise InvalidSubmission(
                f"column {column!r}, row {row}: a run ends at pixel {max(ends)} of an image of {int(size)} pixels"
            )


def _numbers(text: Any) -> list[int]:
    return [] if pd.isna(text) else [int(number) for number in str(text).split()]
