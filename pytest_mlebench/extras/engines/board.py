"""What an engine says of a group's jobs that wait, for who watches the group; the engine is asked now and then."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from pytest_mlebench.errors import ClusterError
from pytest_mlebench.extras.engines.contract import State
from pytest_mlebench.extras.engines.engines import engines
from pytest_mlebench.extras.engines.plan import open_plans
from pytest_mlebench.records.record import RunKey

_SECONDS = 10.0
_asked: dict[Path, tuple[float, list[Waiting]]] = {}


@dataclass(frozen=True, kw_only=True)
class Waiting:
    """A run whose job waits, as engine and id, and the engine's reason."""

    key: RunKey
    job: str
    reason: str


def waiting(group: Path) -> list[Waiting]:
    """The runs of a group whose jobs wait at an engine, by submission; none where an engine does not answer."""
    asked, known = _asked.get(group, (float("-inf"), []))
    if time.monotonic() - asked < _SECONDS:
        return known
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
            if (status := statuses.get(plan.name)) is not None and status.state is State.PENDING:
                found.append(Waiting(key=plan.key, job=f"{name} {job.id.partition('@')[0]}", reason=status.reason))
    _asked[group] = (time.monotonic(), found)
    return found


def waiting_lines(group: Path, most: int) -> list[str]:
    """What ``mlebench watch`` shows of them, the first ``most`` by name; nothing where none waits."""
    if not (found := waiting(group)):
        return []
    keys = ((one, one.key) for one in found[:most])
    named = (f"{key.competition_id}, {key.agent}, seed {key.seed}: {one.job}, {one.reason}" for one, key in keys)
    return [f"{len(found)} waiting:", *named, ""]
