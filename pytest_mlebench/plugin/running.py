"""The items that run agents: each is one agent on one competition with one seed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from pytest_mlebench.errors import MLEBenchError
from pytest_mlebench.plugin import internals
from pytest_mlebench.plugin.collection import CompetitionFile, CompetitionItem
from pytest_mlebench.plugin.reporting import note_run
from pytest_mlebench.plugin.session import CANNOT_WORK, HARNESS_ERROR, NOT_RUN, RECORD, engines, session_of
from pytest_mlebench.records.record import RUN_LOG, RunKey
from pytest_mlebench.reports.run_details import failure_text
from pytest_mlebench.reports.untrusted import plain
from pytest_mlebench.sandbox.logs import tail

if TYPE_CHECKING:
    from pytest_mlebench.agents import Agent
    from pytest_mlebench.data.dataset import Dataset
    from pytest_mlebench.records.record import RunRecord


def runs_of(file: CompetitionFile) -> Iterator[AgentRun]:
    """The session's runs on a competition: each agent with each seed."""
    session = session_of(file.config)
    for agent in session.agents:
        for seed in range(session.settings.seeds):
            yield AgentRun.of(file, agent, seed)


class AgentRun(CompetitionItem):
    """One agent on one competition with one seed."""

    agent: Agent
    key: RunKey

    @classmethod
    def of(cls, parent: CompetitionFile, agent: Agent, seed: int) -> AgentRun:
        """A run still to be done, or one that the run group has the record of: it needs neither data nor sandbox."""
        key = RunKey(agent.id, parent.competition.id, seed)
        session = session_of(parent.config)
        callobj: Callable[..., None] = _run if session.settings.cluster is None else _fetch
        if key in session.finished:
            callobj = _replay
        item = cls.of_version(parent, parent.competition, name=agent.id, callobj=callobj, of=f"seed={seed}")
        item.agent, item.key = agent, key
        config = parent.config
        if config.pluginmanager.hasplugin("timeout") and internals.is_on(
            config, "timeout"
        ):  # pytest-timeout would kill it: it has a limit of its own
            item.add_marker(pytest.mark.timeout(0))
        return item

    def setup(self) -> None:
        """Skip the run of an agent whose model calls were all refused in an earlier run of this process."""
        if why := self.config.stash.get(CANNOT_WORK, {}).get(self.agent.id):
            self.stash[NOT_RUN] = f"{self.agent.id}: {why}. Its other runs were not started"
            pytest.skip(self.stash[NOT_RUN])
        super().setup()


def _replay(request: pytest.FixtureRequest) -> None:
    """What an AgentRun does that was finished in an earlier session: show its record."""
    record = session_of(request.config).finished[request.node.key]
    note_run(request.node, record, again=True)
    _judge(request, record)


def _run(run_agent: Callable[[], RunRecord], request: pytest.FixtureRequest) -> None:
    """What an AgentRun does: run the agent, and judge the record."""
    _judge_what_comes(request, run_agent)


def _fetch(dataset: Dataset, request: pytest.FixtureRequest) -> None:
    """What an AgentRun does that was handed to an engine, and has ended: judge the record."""

    def fetch() -> RunRecord:
        record = engines().fetched(request.config, request.node.key)
        note_run(request.node, record, again=True)
        return record

    _judge_what_comes(request, fetch)


def _judge_what_comes(request: pytest.FixtureRequest, get: Callable[[], RunRecord]) -> None:
    try:
        record = get()
    except MLEBenchError as error:
        request.node.stash[HARNESS_ERROR] = message = plain(str(error))  # an engine may quote an agent
    else:
        _judge(request, record)
        return
    pytest.fail(message, pytrace=False)  # outside of the handler: pytest would show both


def _judge(request: pytest.FixtureRequest, record: RunRecord) -> None:
    session = session_of(request.config)
    request.node.stash[RECORD] = record
    if record.unanswered and not record.report.valid_submission and request.node.key not in session.finished:
        request.config.stash.setdefault(CANNOT_WORK, {})[record.agent] = plain(record.unanswered)
    if not record.outcome.passed or record.outcome.is_below(session.settings.min_medal):
        log = tail(session.group / record.run_id / RUN_LOG)
        pytest.fail(failure_text(record, log, session.settings.min_medal), pytrace=False)
