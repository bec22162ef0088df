"""An installation whose extra of engines was taken out, and a machine without Slurm."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest

from pytest_mlebench import option_values
from pytest_mlebench.errors import ClusterError
from pytest_mlebench.extras.engines.slurm import SlurmEngine


def test_an_installation_without_engines_says_so_and_not_that_the_name_is_wrong(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    none: dict[str, EntryPoint] = {}
    monkeypatch.setattr(option_values, "extensions", lambda group: none)
    assert option_values.cluster("none") is None
    with pytest.raises(ValueError, match="this installation of pytest-mlebench has no engines"):
        option_values.cluster("slurm")


def test_a_machine_that_is_not_of_the_cluster_is_told_where_to_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ClusterError, match=r"^sinfo was not found: .*; start pytest where `sinfo` works"):
        SlurmEngine().check()
