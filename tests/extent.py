"""``MLEBENCH_TEST_ALL=1`` (``.ci/run --all``) runs all cases; otherwise only a sample runs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

import pytest

T = TypeVar("T")
ALL = os.environ.get("MLEBENCH_TEST_ALL") == "1"
only_all = pytest.mark.skipif(not ALL, reason="only with MLEBENCH_TEST_ALL=1, before releases")


def one_in(every: int, cases: Sequence[T]) -> Sequence[T]:
    """Return all cases with ``MLEBENCH_TEST_ALL=1``, or else every ``every``-th."""
    return cases if ALL else cases[::every]
