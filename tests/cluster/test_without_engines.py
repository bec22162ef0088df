"""An installation without the engines extra, and a machine without Slurm."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest

from pytest_mlebench import option_values
from pytest_mlebench.errors import ClusterError
from pytest_mlebench.extras.engines.slurm import SlurmEngine


def test_the_error_without_engines_does_not_blame_the_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    none: dict[str, EntryPoint] = {}
    monkeypatch.setattr(option_values, "extensions", lambda group: none)
    assert option_values.cluster("none") is None
    with pytest.raises(ValueError, match="this installation of pytest-mlebench has no engines"):
        option_values.cluster("slurm")


def test_the_error_outside_the_cluster_says_where_to_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ClusterError, match=r"^sinfo was not found: .*; start pytest where `sinfo` works"):
        SlurmEngine().check()
