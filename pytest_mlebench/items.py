"""What pytest collects: a competition's folder, the runs of agents on it, or the checks of its grader."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from pytest_mlebench.agents import Agent
from pytest_mlebench.catalog import Competition
from pytest_mlebench.catalog.catalogue import bundled
from pytest_mlebench.errors import CompetitionError, MLEBenchError
from pytest_mlebench.results.record import RunKey, RunRecord
from pytest_mlebench.settings import Settings

SETTINGS = pytest.StashKey[Settings]()
RECORD = pytest.StashKey[RunRecord]()
TROUBLE = pytest.StashKey[str]()
"""Why a run has no record: the harness could not even write one."""
_RUN = re.compile(r"(?P<file>.+)::(?P<agent>[^:\[]+)\[seed=(?P<seed>\d+)\]")


def settings_of(config: pytest.Config) -> Settings:
    return config.stash[SETTINGS]


def teller(config: pytest.Config) -> Callable[[str], None]:
    """A function that shows a line at once, past pytest's capture, also from a worker."""

    def tell(line: str) -> None:
        capture = config.pluginmanager.getplugin("capturemanager")
        with capture.global_and_fixture_disabled() if capture else nullcontext():
            print(f"mlebench: {line}", file=sys.stderr, flush=True)

    return tell


def key_of(nodeid: str) -> RunKey | None:
    """The run that an AgentRun's node id names; None for other items."""
    match = _RUN.fullmatch(nodeid)
    return match and RunKey(match["agent"], Path(match["file"]).parent.name, int(match["seed"]))


class CompetitionFile(pytest.File):
    """A ``competition.yaml``. Collecting it reads YAML and imports nothing of the competition."""

    competition: Competition

    @classmethod
    def of(cls, path: Path, parent: pytest.Collector) -> CompetitionFile:
        """The collector of a file; a bundled competition outside of the rootdir is named as in a checkout."""
        name = None
        if path.is_relative_to(bundled("competitions")) and not path.is_relative_to(parent.config.rootpath):
            name = path.relative_to(bundled("competitions").parent).as_posix()
        return cls.from_parent(parent, path=path, nodeid=name)

    def collect(self) -> Iterator[pytest.Item]:
        settings = settings_of(self.config)
        try:
            self.competition = Competition.load(self.path)
        except CompetitionError as error:
            raise self.CollectError(str(error)) from error
        selected = settings.selected_ids
        if selected is not None and self.competition.id not in selected:
            return
        for word in (
            self.competition.split,
            *(["lite"] if self.competition.split == "low" else []),
            self.competition.category,
        ):
            name = marker_name(word)
            self.config.addinivalue_line("markers", f"{name}: competitions of {word}")
            self.add_marker(name)
        if settings.has_runs:
            for agent in settings.agents:
                for seed in range(settings.seeds):
                    yield AgentRun.of(self, agent, seed)
        else:
            from pytest_mlebench.gate import checks

            for name, check in checks(real_data=settings.real_data):
                yield CompetitionItem.from_parent(self, name=name, callobj=check)


class CompetitionItem(pytest.Function):
    """A test function that runs for one competition; fixtures, marks and properties work as for any other."""

    agent: Agent | None = None
    seed: int = 0

    @property
    def competition(self) -> Competition:
        assert isinstance(self.parent, CompetitionFile)
        return self.parent.competition

    @property
    def id(self) -> Any:
        # pytest compares parts of ids (for --lf): the seed in brackets must be one, though no parametrisation made it.
        own = super().id
        return own.parse(str(own))

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, 0, f"{self.competition.id}::{self.name}"


class AgentRun(CompetitionItem):
    """One agent on one competition with one seed."""

    @classmethod
    def of(cls, parent: CompetitionFile, agent: Agent, seed: int) -> AgentRun:
        """A run still to be done, or one that the run group has the record of: it needs neither data nor sandbox."""
        key = RunKey(agent.id, parent.competition.id, seed)
        is_finished = key in settings_of(parent.config).finished
        callobj = _recall if is_finished else _run
        item: AgentRun = cls.from_parent(parent, name=f"{agent.id}[seed={seed}]", callobj=callobj)
        item.agent, item.seed = agent, seed
        return item


def _recall(request: pytest.FixtureRequest) -> None:
    """What an AgentRun does that was finished in an earlier session: show its record."""
    from pytest_mlebench.outcomes import properties

    item = request.node
    record = settings_of(request.config).finished[RunKey(item.agent.id, item.competition.id, item.seed)]
    request.node.user_properties.extend(properties(record))
    _judge(request, record)


def _run(run_agent: Callable[[], RunRecord], request: pytest.FixtureRequest) -> None:
    """What an AgentRun does: run the agent, and judge the record."""
    try:
        record = run_agent()
    except MLEBenchError as error:
        request.node.stash[TROUBLE] = trouble = str(error)
    else:
        trouble = ""
    if trouble:
        pytest.fail(trouble, pytrace=False)
    _judge(request, record)


def _judge(request: pytest.FixtureRequest, record: RunRecord) -> None:
    from pytest_mlebench.outcomes import failure_text, is_below, outcome_of
    from pytest_mlebench.sandbox.base import RUN_LOG
    from pytest_mlebench.sandbox.logs import tail

    settings = settings_of(request.config)
    request.node.stash[RECORD] = record
    if not outcome_of(record).passed or is_below(record, settings.min_medal):
        log = tail(settings.run_group.folder / record.run_id / RUN_LOG)
        pytest.fail(failure_text(record, log, settings.min_medal), pytrace=False)


def marker_name(word: str) -> str:
    """A split or category as a marker, for example ``image_classification``."""
    cleaned = "".join(letter if letter.isalnum() else "_" for letter in word.lower().replace("->", " to "))
    name = "_".join(filter(None, cleaned.split("_")))
    return f"category_{name}" if name[0].isdigit() else name  # a marker must be an identifier


def item_of(request: pytest.FixtureRequest) -> CompetitionItem | None:
    return request.node if isinstance(request.node, CompetitionItem) else None
