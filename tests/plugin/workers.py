"""Sessions with and without pytest-xdist."""

from __future__ import annotations

import pytest

in_one_process_and_with_xdist = pytest.mark.parametrize(
    "workers",
    [pytest.param((), id="in one process"), pytest.param(("-n", "2"), id="with xdist", marks=pytest.mark.full)],
)
