"""Boxes around things in pictures: what readers draw, and predictions as text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np


def redrawn(rng: np.random.Generator, box: Sequence[float], share: float) -> np.ndarray:
    """A box (x0, y0, x1, y1) whose sides are off by a share of its size (a standard deviation).

    >>> redrawn(np.random.default_rng(0), (2, 2, 6, 6), 0.0).tolist()
    [2.0, 2.0, 6.0, 6.0]
    """
    x0, y0, x1, y1 = box
    return np.asarray(np.array(box, dtype=float) + share * rng.normal(size=4) * [x1 - x0, y1 - y0, x1 - x0, y1 - y0])


def prediction(parts: Iterable[tuple[object, float, Sequence[float]]]) -> str:
    """The text of labels, confidences and boxes, separated by spaces.

    >>> prediction([("none", 0.25, (0, 0, 1, 1))])
    'none 0.25 0 0 1 1'
    """
    return " ".join(
        f"{label} {round(float(confidence), 4):g} " + " ".join(f"{round(float(side), 3):g}" for side in box)
        for label, confidence, box in parts
    )


WHOLE = (0, 0, 1, 1)
"""The box of labels that belong to a whole picture."""
