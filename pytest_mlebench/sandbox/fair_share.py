"""What a run may use of this machine: a fair share unless the user says otherwise, and never more than there is."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import Any

from pytest_mlebench.errors import SandboxError
from pytest_mlebench.sandbox.contract import Limits
from pytest_mlebench.units import format_size, pluralize

_KEPT_MEMORY, _KEPT_MEMORY_SHARE = 1 << 30, 0.1
"""Of the memory, at least so much stays with the harness, which grades and collects."""
_KEPT_CPUS_SHARE = 0.05
_LEAST_MEMORY = 32 << 20


@dataclass(frozen=True, kw_only=True)
class Machine:
    """Processors, and memory in bytes, that all runs of this machine share."""

    cpus: int
    memory: int


def apply(limits: Limits, machine: Machine, *, workers: int = 1) -> Limits:
    """The limits with a fair share of ``machine`` for each of ``workers`` runs where they say nothing.

    Raises SandboxError for limits that cannot be, or that are beyond the machine.
    """
    for name, value in (("--time-limit", limits.time_limit), ("--cpus", limits.cpus)):
        if value is not None and not (value > 0 and math.isfinite(value)):
            raise SandboxError(f"{name} is {value:g}, must be more than 0")
    for name, size in (("--memory", limits.memory), ("--disk", limits.disk), ("processes", limits.processes)):
        if size is not None and size <= 0:
            raise SandboxError(f"{name} is {size}, must be more than 0")
    if limits.cpus is not None and limits.cpus > machine.cpus:
        raise SandboxError(f"--cpus is {limits.cpus:g}, but this machine has {pluralize(machine.cpus, 'processor')}")
    if limits.memory is not None and limits.memory > machine.memory:
        raise SandboxError(
            f"--memory is {format_size(limits.memory)}, but this machine has {format_size(machine.memory)}"
        )
    if limits.memory is not None and limits.memory < _LEAST_MEMORY:
        raise SandboxError(f"--memory is {format_size(limits.memory)}, must be at least {format_size(_LEAST_MEMORY)}")
    kept = max(_KEPT_MEMORY, int(machine.memory * _KEPT_MEMORY_SHARE))
    memory = max(_LEAST_MEMORY, (machine.memory - min(kept, machine.memory // 2)) // workers)
    cpus = math.floor(machine.cpus * (1 - _KEPT_CPUS_SHARE) / workers * 100) / 100
    return replace(
        limits,
        memory=memory if limits.memory is None else limits.memory,
        cpus=max(0.01, cpus) if limits.cpus is None else limits.cpus,
    )


def describe(limits: Limits) -> dict[str, Any]:
    """The limits that applied, for a run's record; what is not there was unlimited."""
    return {name: value for name, value in asdict(limits).items() if value is not None}
