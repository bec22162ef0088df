"""An open run group: this process writes it, and completes it when it is closed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Self

from pytest_mlebench import factories
from pytest_mlebench.agents import Agent
from pytest_mlebench.catalog import Competition
from pytest_mlebench.data.dataset import Dataset
from pytest_mlebench.errors import UsageError, unusable
from pytest_mlebench.io.progress import Reporter, WarningNote, silent
from pytest_mlebench.options import Settings
from pytest_mlebench.records.group import GroupReader, RunGroup
from pytest_mlebench.records.layout import REPORT
from pytest_mlebench.records.manifest import PlannedRun
from pytest_mlebench.records.record import RunKey
from pytest_mlebench.reports.page import page
from pytest_mlebench.results.grading_report import write_group
from pytest_mlebench.results.overview import overview
from pytest_mlebench.runs.run import run_agent
from pytest_mlebench.runs.writer import RunGroupWriter, make_folder


class OpenGroup:
    """A run group that this process writes, and has completed when it is closed: manifest, reports and page.

    ``sandboxes`` has the kind of sandbox of each agent, ``competition_file`` finds the ``competition.yaml`` of a node
    id, ``cluster`` describes the engine that runs are handed to. Raises UsageError where another session has the group,
    and where it was made with other settings.
    """

    def __init__(
        self,
        folder: Path,
        settings: Settings,
        *,
        agents: Sequence[Agent],
        sandboxes: Mapping[str, str],
        competition_file: Callable[[str], Path],
        workers: int = 1,
        cluster: Mapping[str, str] | None = None,
        reporter: Reporter = silent,
    ) -> None:
        make_folder(folder.parent)
        self.folder, self.reader, self._reporter = folder, GroupReader(folder), reporter
        self._writer = RunGroupWriter(
            folder,
            agents=agents,
            sandboxes=sandboxes,
            limits=factories.limits(settings),
            workers=workers,
            settings=factories.comparable_settings(settings),
            options=factories.session_options(settings),
            competition_file=competition_file,
            allow_changes=settings.allow_changes,
            cluster=cluster,
            reporter=reporter,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def plan(self, runs: Iterable[PlannedRun]) -> None:
        """Note runs that are going to be done; those that are known already count once."""
        self._writer.plan(runs)

    def close(self) -> RunGroup | None:
        """Write the group's metadata, grading report and page, and complete its manifest; None for an empty new group.

        What cannot be written is reported as a warning: each run's own record is there already.
        """
        if self._writer.discard_empty():
            return None
        try:
            records = self.reader.records()
            if records:
                write_group(self.folder, self._writer.manifest.created_at, records)
            self._writer.close(records)
            group = self.reader.read()
            (self.folder / REPORT).write_text(page(overview([group]), folder=self.folder), encoding="utf-8")
        except (OSError, UsageError) as error:
            why = unusable(error) if isinstance(error, OSError) else str(error)
            self._reporter(WarningNote(f"the run group's reports cannot be written: {why}"))
            return None
        return group


def run_all(
    folder: Path,
    settings: Settings,
    agent: Agent,
    competitions: Sequence[Competition],
    *,
    seeds: Sequence[int],
    sandboxes: factories.Sandboxes,
    prepare: Callable[[Competition], Dataset],
    reporter: Reporter,
) -> RunGroup:
    """Run an agent on competitions with seeds, in one process and one run group; see ``Bench.run``."""
    factories.check_agent(settings, agent)
    sandbox = sandboxes.choose(agent)
    sandbox.check(agent)
    files = {own.id: own.folder / "competition.yaml" for own in competitions}
    opened = OpenGroup(
        folder,
        settings,
        agents=(agent,),
        sandboxes={agent.id: sandbox.name},
        competition_file=lambda nodeid: files.get(Path(nodeid.split("::")[0]).parent.name, Path(nodeid)),
        reporter=reporter,
    )
    with opened:
        keys = [RunKey(agent.id, own.id, seed) for own in competitions for seed in seeds]
        opened.plan(PlannedRun(*key, nodeid=_nodeid(key)) for key in keys)
        sandbox.prepare(agent)
        finished = {record.key for record in opened.reader.records()}
        run_options = factories.run_options(settings, opened.folder)
        for own in competitions:
            left = [key.seed for key in keys if key.competition_id == own.id and key not in finished]
            dataset = prepare(own) if left else None
            for seed in left:
                assert dataset is not None
                opened.reader.add(run_agent(agent, own, dataset, sandbox, run_options, seed=seed))
    return opened.reader.read()


def _nodeid(key: RunKey) -> str:
    """As pytest names the run, so that ``pytest --resume`` goes on with the group."""
    return f"competitions/{key.competition_id}/competition.yaml::{key.agent}[seed={key.seed}]"
