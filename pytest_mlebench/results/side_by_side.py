"""Several run groups in one report: their runs together, with agents that can be told apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pytest_mlebench.results.group import RunGroupResults, RunKey
from pytest_mlebench.results.record import RunRecord


@dataclass(frozen=True)
class SideBySide:
    """The runs of some groups. An agent that is in several of them is called ``AGENT in GROUP``."""

    records: tuple[RunRecord, ...]
    planned: frozenset[RunKey]
    run_dirs: tuple[Path, ...]
    """Where each record's run left its files."""


def side_by_side(groups: Sequence[RunGroupResults]) -> SideBySide:
    """Put the groups' runs together."""
    agents = [{key.agent for key in group.planned} | {record.agent for record in group.records} for group in groups]
    repeated = {agent for k, own in enumerate(agents) for agent in own if any(agent in o for o in agents[k + 1 :])}

    def name(agent: str, group: RunGroupResults) -> str:
        return f"{agent} in {group.name}" if agent in repeated else agent

    return SideBySide(
        records=tuple(replace(record, agent=name(record.agent, group)) for group in groups for record in group.records),
        planned=frozenset(key._replace(agent=name(key.agent, group)) for group in groups for key in group.planned),
        run_dirs=tuple(group.folder / record.run_id for group in groups for record in group.records),
    )
