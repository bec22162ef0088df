"""An installation whose extra of engines was taken out."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest

from pytest_mlebench import option_values


def test_an_installation_without_engines_says_so_and_not_that_the_name_is_wrong(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    none: dict[str, EntryPoint] = {}
    monkeypatch.setattr(option_values, "extensions", lambda group: none)
    assert option_values.cluster("none") is None
    with pytest.raises(ValueError, match="this installation of pytest-mlebench has no engines"):
        option_values.cluster("slurm")
