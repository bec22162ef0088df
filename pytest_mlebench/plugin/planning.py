"""What a session is about to do: its runs, and the data that they need. xdist's workers send theirs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from pytest_mlebench.errors import UsageError
from pytest_mlebench.plugin import events, private
from pytest_mlebench.plugin.collection import competition_of
from pytest_mlebench.plugin.datasets import check
from pytest_mlebench.plugin.group import plan_runs
from pytest_mlebench.plugin.running import AgentRun
from pytest_mlebench.plugin.session import is_worker, session_of, usage_errors
from pytest_mlebench.plugin.start import for_workers

if TYPE_CHECKING:
    from pytest_mlebench.catalog import Catalogue

_DATASET = "dataset"
"""The fixture that needs a competition's data."""
_SENT = "mlebench_plan"
_CHECKED = pytest.StashKey[bool]()


@dataclass(frozen=True)
class Plan:
    """The runs among a session's items, each as agent, competition id, seed and node id; the folder of each competition
    whose data is needed; and whether there are items, but none that runs an agent. These are plain values, which xdist
    can send."""

    runs: tuple[tuple[str, str, int, str], ...]
    folders: tuple[str, ...]
    runs_nothing: bool

    @classmethod
    def of(cls, items: Sequence[pytest.Item], catalogue: Catalogue) -> Plan:
        needed = [
            competition.folder
            for item in items
            if _DATASET in getattr(item, "fixturenames", ())
            and (competition := competition_of(item, catalogue)) is not None
        ]
        return cls(
            runs=tuple((*item.key, item.nodeid) for item in items if isinstance(item, AgentRun)),
            folders=tuple(dict.fromkeys(map(str, needed))),
            runs_nothing=bool(items) and not any(_runs_agent(item) for item in items),
        )


def _runs_agent(item: pytest.Item) -> bool:
    return isinstance(item, AgentRun) or "agent" in getattr(item, "fixturenames", ())


def configure_worker(node: Any) -> None:
    """Before xdist starts a worker: give it the run group, and let it send its plan and its events."""
    node.workerinput.update(for_workers(node.config))
    private.open_worker_channel(node, partial(_receive, node))


def _receive(node: Any, message: tuple[str, Any]) -> None:
    kind, values = message
    if kind == "plan":
        setattr(node, _SENT, Plan(*values))
    else:
        events.receive(node.config, node.gateway.id, values)


def collection_finished(session: pytest.Session) -> None:
    """When all items are chosen, and some are about competitions; with xdist the controller has none."""
    plan = Plan.of(session.items, session_of(session.config).bench.catalogue)
    if is_worker(session.config):
        private.send_to_controller(session.config, ("plan", (plan.runs, plan.folders, plan.runs_nothing)))
    else:
        _take_up(session.config, plan)


def worker_collection_finished(node: Any) -> None:
    """When an xdist worker has sent its items; all workers have the same."""
    if (plan := getattr(node, _SENT, None)) is not None and not node.config.stash.get(_CHECKED, False):
        node.config.stash[_CHECKED] = True
        _take_up(node.config, plan)


def _take_up(config: pytest.Config, plan: Plan) -> None:
    """See before the first test that data can be had, and then, as that may take minutes, that runs can start; note
    them in the run group. Raises pytest.UsageError."""
    bench = session_of(config).bench
    with usage_errors():
        if bench.settings.has_runs and plan.runs_nothing:
            where = ", ".join(config.args)
            raise UsageError(f"--agent: nothing in {where} runs an agent: name a competition's folder, or leave it out")
        if config.option.collectonly:
            return

        has_data = check(bench, plan.folders)
        plan_runs(config, plan.runs, build=has_data)
