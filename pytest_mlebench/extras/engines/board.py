"""What an engine says of a group's jobs that wait, for who watches the group; the engine is asked now and then."""

from __future__ import annotations

import time
from pathlib import Path

from pytest_mlebench.errors import ClusterError
from pytest_mlebench.extras.engines.contract import JobState, engines
from pytest_mlebench.extras.engines.plan import open_plans

_SECONDS = 10.0
_asked: dict[Path, tuple[float, list[str]]] = {}


def waiting_lines(group: Path, most: int) -> list[str]:
    """What ``mlebench watch`` shows of a group's jobs that wait, the first ``most`` by name; empty if none waits."""
    asked, found = _asked.get(group, (float("-inf"), list[str]()))
    if time.monotonic() - asked >= _SECONDS:
        found = _waiting(group)
        _asked[group] = (time.monotonic(), found)
    return [f"{len(found)} waiting:", *found[:most], ""] if found else []


def _waiting(group: Path) -> list[str]:
    """The runs whose jobs wait, by submission, with job and reason; none where an engine does not answer."""
    found = []
    plans = sorted(open_plans(group), key=lambda pair: pair[0].submitted)
    installed = engines()
    for name in {plan.engine for plan, _ in plans} & installed.keys():
        own = [(plan, job) for plan, job in plans if plan.engine == name]
        try:
            statuses = installed[name]().poll([job for _, job in own])
        except ClusterError:
            continue
        for plan, job in own:
            if (status := statuses.get(plan.name)) is not None and status.state is JobState.PENDING:
                id = job.id.partition("@")[0]
                found.append(f"{plan.competition_id}, {plan.agent}, seed {plan.seed}: {name} {id}, {status.reason}")
    return found
