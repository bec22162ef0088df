"""Node ids in pytest's output."""

from __future__ import annotations

import pytest


def collected(result: pytest.RunResult) -> list[str]:
    """What ``--collect-only -q`` lists."""
    return [line for line in result.outlines if "::" in line and not line.startswith(("FAILED", "ERROR", " "))]
