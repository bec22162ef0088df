"""Toy competitions are prepared in the tests' process, like bundled ones, which is ten times as fast.

``tests/grading/test_third_party.py`` tests the confined process that prepares third-party competitions.
"""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _as_bundled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_mlebench.data.preparing.is_third_party", lambda competition: False)
