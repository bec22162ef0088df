"""Node ids in pytest's output."""

from __future__ import annotations

import pytest


def collected(result: pytest.RunResult) -> list[str]:
    """The node ids listed by ``--collect-only -q``."""
    return [line for line in result.outlines if "::" in line and not line.startswith(("FAILED", "ERROR", " "))]
