"""Whether some values tell the true ones, beyond what chance would do."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

_LOG_CHANCE = math.log(1e6)
"""One in a million: as many features are looked at, one in ten thousand runs finds what is not there."""
_NEARLY_ALL = 0.99


def tells(values: Sequence[Hashable], truth: Sequence[Hashable]) -> bool:
    """Whether few different values stand for the true ones: each for one of them, in nearly all rows.

    >>> tells(["a", "b"] * 15, [0, 1] * 15), tells(["a", "b", "b"] * 10, [0, 1] * 15)
    (True, False)
    """
    if not 1 < len(set(values)) <= len(values) / 3 or not _is_unlikely(truth, len(set(values))):
        return False
    of_value: dict[Hashable, Counter[Hashable]] = {}
    for value, true in zip(values, truth, strict=True):
        of_value.setdefault(value, Counter())[true] += 1
    right = sum(max(counts.values()) for counts in of_value.values())
    by_guess = max(Counter(truth).values())
    return len(truth) - right <= (1 - _NEARLY_ALL) * (len(truth) - by_guess)


def equals(values: Sequence[str], truth: Sequence[str]) -> bool:
    """Whether values are the true ones in nearly all rows, or numbers that a straight line turns into them.

    >>> equals(["1.0", "3.0", "2"], ["1", "3", "2"]), equals(["3", "1", "2"], ["1", "3", "2"])
    (True, False)
    """
    if len(set(truth)) < 2:
        return False
    same = np.mean([value == true for value, true in zip(values, truth, strict=True)])
    if same > _NEARLY_ALL:
        return True
    x, y = _numbers(values), _numbers(truth)
    if x is None or y is None or len(x) < 3:
        return False
    if np.isclose(x, y, rtol=1e-9, atol=0).mean() > _NEARLY_ALL:
        return True
    if len(np.unique(y)) < 10 or np.ptp(x) == 0:
        return False
    with np.errstate(all="ignore"):
        return bool(abs(np.corrcoef(x, y)[0, 1]) > 1 - 1e-9)


def is_sorted(truth: Sequence[str]) -> bool:
    """Whether true values rise or fall from each row to the next, as numbers if they are, else as texts.

    >>> is_sorted(["a"] * 20 + ["b"] * 20), is_sorted(["a", "b"] * 20)
    (True, False)
    """
    if not _is_unlikely(truth):
        return False
    numbers = _numbers(truth)
    pairs = list(pairwise(truth if numbers is None else numbers.tolist()))
    return all(one <= other for one, other in pairs) or all(one >= other for one, other in pairs)


def _is_unlikely(truth: Sequence[Hashable], values: int = 0) -> bool:
    """Whether there are so many orders of the true values that one of them is no chance.

    Each of so many other ``values`` may stand for any of them.
    """
    orders = math.lgamma(len(truth) + 1) - sum(math.lgamma(count + 1) for count in Counter(truth).values())
    return orders - values * math.log(len(set(truth))) > _LOG_CHANCE


def _numbers(texts: Sequence[str]) -> NDArray[np.float64] | None:
    try:
        numbers = np.array([float(text) for text in texts])
    except (TypeError, ValueError):
        return None
    return numbers if np.isfinite(numbers).all() else None
