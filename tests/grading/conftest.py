"""Treats toy competitions as bundled, so that they are prepared in the tests' process in a tenth of the time."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _as_bundled(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.path.name != "test_third_party.py":  # it tests the confined process
        monkeypatch.setattr("pytest_mlebench.data.preparing.is_third_party", lambda competition: False)
