"""Toy competitions are prepared in the process of the tests, as bundled ones are, which takes a tenth of the time.

``tests/grading/test_third_party.py`` tests the confined process that prepares other people's competitions.
"""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _as_bundled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_mlebench.data.preparing.is_third_party", lambda competition: False)
