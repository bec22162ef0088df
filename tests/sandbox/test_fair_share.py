"""A run gets a fair share of the machine, and never more than it has."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_mlebench.errors import SandboxError
from pytest_mlebench.sandbox import Limits
from pytest_mlebench.sandbox.limits import Machine, apply, describe
from pytest_mlebench.sandbox.local.sandbox import LocalSandbox
from tests.sandbox.scripted import Runner

GIB = 1 << 30
MACHINE = Machine(cpus=16, memory=100 * GIB)


def test_without_limits_runs_share_the_resources_that_the_harness_leaves() -> None:
    share = apply(Limits(), MACHINE, workers=4)
    assert (share.cpus, share.memory) == (3.8, 90 * GIB // 4)
    alone = apply(Limits(), Machine(cpus=2, memory=4 * GIB))
    assert (alone.cpus, alone.memory) == (1.9, 3 * GIB)


def test_explicit_limits_are_kept() -> None:
    asked = Limits(cpus=16, memory=100 * GIB, disk=GIB)
    assert apply(asked, MACHINE, workers=4) == asked
    assert describe(asked)["disk"] == GIB


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"cpus": 36}, "--cpus is 36, but this machine has 16 processors"),
        ({"memory": 440 * GIB}, "--memory is 440 GiB, but this machine has 100 GiB"),
        ({"cpus": 0}, "--cpus must be a finite number above 0, not 0"),
        ({"cpus": -1}, "--cpus must be a finite number above 0, not -1"),
        ({"cpus": float("nan")}, "--cpus must be a finite number above 0, not nan"),
        ({"memory": 0}, "--memory must be above 0, not 0"),
        ({"memory": 1000}, "--memory is 1000 bytes, but a run needs at least 32 MiB"),
        ({"disk": 0}, "--disk must be above 0, not 0"),
        ({"time_limit": 0}, "--time-limit must be a finite number above 0, not 0"),
        ({"time_limit": float("inf")}, "--time-limit must be a finite number above 0, not inf"),
        ({"processes": 0}, "processes must be above 0, not 0"),
    ],
)
def test_impossible_limits_are_rejected(limits: dict[str, Any], message: str) -> None:
    with pytest.raises(SandboxError, match=message):
        apply(Limits(**limits), MACHINE)


def test_limits_beyond_the_machine_are_rejected_and_applied_limits_are_recorded(run: Runner) -> None:
    for limits in ({"cpus": 10_000}, {"memory": 1 << 60}, {"cpus": 0}):
        with pytest.raises(SandboxError, match=r"--(cpus|memory) (is .*, but this machine has|must be a finite)"):
            run("true", **limits)
    applied = run("true", memory=None, cpus=None).execution.sandbox.limits
    assert applied["memory"] > 0 and applied["cpus"] > 0 and applied["processes"] == 4096


def test_the_local_sandbox_rejects_network_none() -> None:
    with pytest.raises(SandboxError, match="--sandbox=docker"):
        LocalSandbox(network="none")
