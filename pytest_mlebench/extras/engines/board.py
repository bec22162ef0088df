"""Lists a run group's waiting jobs for ``mlebench watch``. Engines are polled at most once in ten seconds."""

from __future__ import annotations

import time
from pathlib import Path

from pytest_mlebench.errors import ClusterError
from pytest_mlebench.extras.engines.contract import JobState, engines
from pytest_mlebench.extras.engines.plan import open_plans

_POLL_SECONDS = 10.0
_polled: dict[Path, tuple[float, list[str]]] = {}


def waiting_lines(group: Path, most: int) -> list[str]:
    """Lines of ``mlebench watch``: the number of waiting jobs, and the first ``most`` of them. Empty if none waits."""
    polled_at, found = _polled.get(group, (float("-inf"), list[str]()))
    if time.monotonic() - polled_at >= _POLL_SECONDS:
        found = _waiting(group)
        _polled[group] = (time.monotonic(), found)
    return [f"{len(found)} waiting:", *found[:most], ""] if found else []


def _waiting(group: Path) -> list[str]:
    """A line for each waiting job, with run and reason, by time of submission. Skips engines that do not answer."""
    found = []
    plans = sorted(open_plans(group), key=lambda pair: pair[0].submitted)
    installed = engines()
    for name in {plan.engine for plan, _ in plans} & installed.keys():
        submitted = [(plan, job) for plan, job in plans if plan.engine == name]
        try:
            statuses = installed[name]().poll([job for _, job in submitted])
        except ClusterError:
            continue
        for plan, job in submitted:
            if (status := statuses.get(plan.name)) is not None and status.state is JobState.PENDING:
                id = job.id.partition("@")[0]
                found.append(f"{plan.competition_id}, {plan.agent}, seed {plan.seed}: {name} {id}, {status.reason}")
    return found
