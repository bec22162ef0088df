"""The run group of a session and its agents: opened before the first run, given the planned runs, closed at the end."""

from __future__ import annotations

import os
import secrets
from collections.abc import Collection, Iterable
from contextlib import ExitStack, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_mlebench.bench import Bench
from pytest_mlebench.errors import SandboxError, UsageError, reason
from pytest_mlebench.io.processes import sigterm_interrupts
from pytest_mlebench.io.progress import WarningNote
from pytest_mlebench.options import Settings
from pytest_mlebench.plugin import internals, options
from pytest_mlebench.plugin.events import Interruption, heartbeat, reporter_of
from pytest_mlebench.plugin.running import runs_of
from pytest_mlebench.plugin.session import (
    Session,
    engines,
    has_engines,
    is_worker,
    replace_session,
    session_of,
    usage_errors,
    writes_group,
)
from pytest_mlebench.records.group import LAST, GroupReader, find_group
from pytest_mlebench.records.manifest import UNKNOWN, Manifest, PlannedRun
from pytest_mlebench.records.record import JOBS, MANIFEST, RunRecord
from pytest_mlebench.reports.medals import in_order, medal_table
from pytest_mlebench.reports.sections import rate_sections
from pytest_mlebench.reports.tables import markdown_text
from pytest_mlebench.results.overview import overview
from pytest_mlebench.runs.writer import hold_as_worker
from pytest_mlebench.sandbox.gpus import GpuPool
from pytest_mlebench.sandbox.leftovers import clean_folders

if TYPE_CHECKING:
    from pytest_mlebench.group import OpenGroup
    from pytest_mlebench.records.group import RunGroup


def start(config: pytest.Config) -> None:
    """Read the run group and the agents of ``--agent`` and ``--resume``; raises pytest.UsageError."""
    with usage_errors():
        _start_runs(config, session_of(config).settings)


def _start_runs(config: pytest.Config, settings: Settings) -> None:
    sent = internals.worker_input(config)
    folder = Path(sent["mlebench_group"]) if sent else _group_folder(settings)
    resumed: tuple[PlannedRun, ...] = ()
    if settings.resume:
        manifest = Manifest.read(folder)
        if manifest is None:
            raise UsageError(f"run group {folder} has no {MANIFEST}: it cannot be resumed")
        settings, resumed = options.read_resumed(config, manifest, folder / MANIFEST), manifest.runs
    finished = [RunRecord.from_json(values) for values in sent["mlebench_finished"]] if sent else []
    bench = session_of(config).bench
    if sent:
        settings = replace(settings, data=sent["mlebench_data"])
    if settings is not bench.settings:
        bench = Bench(settings=settings, reporter=bench.reporter, workers=bench.workers)
    if not config.option.collectonly:
        bench = bench.settle_twins(folder)
    session = replace_session(
        config,
        bench=bench,
        agents=bench.chosen_agents,
        reader=GroupReader(folder),
        resumed=resumed,
        finished={record.key: record for record in finished},
        worker=sent["workerid"] if sent else "",
        runs_of=runs_of,
    )
    if not sent:
        if "--trust-agent" in options.given(config):
            _check_trusted(session)
        _check_agents(session)


def _check_trusted(session: Session) -> None:
    for id in session.settings.trust_agents:
        try:
            _ = session.bench.registry[id]
        except UsageError as error:
            raise UsageError(f"--trust-agent={id}: {error}") from None


def read_finished(config: pytest.Config) -> None:
    """Read which runs are finished. To be called when the group is open: until then, workers of a killed session may
    finish some more."""
    session = session_of(config)
    assert session.reader is not None
    again = session.settings.retry_failed
    finished = {record.key: record for record in session.reader.records() if record.outcome not in again}
    replace_session(config, finished=finished)


def _check_agents(session: Session) -> None:
    """Notice before the first run that a secret is not set, or that there are too few GPUs.

    Other machines have GPUs of their own, and their own environment unless ``--cluster-keys`` gives the keys.
    """
    settings, elsewhere = session.settings, session.settings.cluster not in (None, "local")
    if settings.cluster_keys is not None:
        engines().load_keys(settings.cluster_keys)
    elif elsewhere:
        return
    for agent in session.agents:
        session.bench.check_agent(agent)
    if session.settings.gpus and not elsewhere:
        GpuPool(session.settings.gpu_ids).check(session.settings.gpus)


def _group_folder(settings: Settings) -> Path:
    resumed, named = settings.resume, settings.run_group
    if resumed is None:
        return _group(settings.runs_dir, named or _new_group_name())

    folder = find_group(resumed, settings.runs_dir).absolute()
    if named is not None and _group(settings.runs_dir, named) != folder:
        raise UsageError(f"--resume={resumed} and --run-group={named} are two groups; name one")
    return folder


def _group(runs_dir: Path, name: str) -> Path:
    """The group of ``--run-group``, which may be new: any folder, or a name below ``runs_dir``."""
    return (find_group(name, runs_dir) if name == LAST else runs_dir / name).absolute()


def _new_group_name() -> str:
    return f"{datetime.now(UTC):%Y-%m-%dT%H-%M-%S}-{secrets.token_hex(2)}"


def for_workers(config: pytest.Config) -> dict[str, Any]:
    """What xdist workers are given: one group for all, and its records, which are read once."""
    session = session_of(config)
    if not session.settings.has_runs:
        return {}
    finished = [record.to_json() for record in session.finished.values()]
    return {
        "mlebench_group": str(session.group),
        "mlebench_finished": finished,
        "mlebench_data": session.settings.data,
    }


_OPENED: pytest.StashKey[OpenGroup] = pytest.StashKey()
_HELD: pytest.StashKey[int | None] = pytest.StashKey()
_PROBLEMS: pytest.StashKey[dict[str, str]] = pytest.StashKey()
"""Why agents cannot start, by their ids."""
_HEARTBEAT: pytest.StashKey[ExitStack] = pytest.StashKey()


def open_group(config: pytest.Config) -> None:
    """Open the run group; raises pytest.UsageError if it cannot be resumed.

    What keeps an agent's runs from starting is said before the first one (see ``plan_runs``).
    """
    session = session_of(config)
    if is_worker(config) and session.settings.has_runs:
        config.stash[_HELD] = hold_as_worker(session.group)
    if not writes_group(config):
        return

    elsewhere = session.settings.cluster
    with usage_errors():
        if elsewhere is None and (session.group / JOBS).is_dir() and has_engines():
            engines().check_none_runs(session)
    kinds, problems = {}, config.stash.setdefault(_PROBLEMS, {})
    for agent in session.agents:
        kinds[agent.id] = UNKNOWN
        if elsewhere not in (None, "local"):  # its nodes have sandboxes, this machine need not
            kinds[agent.id] = UNKNOWN if session.settings.sandbox == "auto" else session.settings.sandbox
            continue
        try:
            sandbox = session.bench.sandbox(agent)
            kinds[agent.id] = sandbox.name
            sandbox.check(agent)
        except SandboxError as error:
            problems[agent.id] = str(error)
    with usage_errors():
        config.stash[_OPENED] = session.bench.open_group(
            session.group,
            agents=session.agents,
            sandboxes=kinds,
            competition_file=session.competition_file,
            workers=None if elsewhere is None else engines().machine_shares(session.settings),
            cluster=None if elsewhere is None else engines().description(config),
        )
        read_finished(config)
    _remove_leftovers(config, engines={"docker", "podman"} & set(kinds.values()))
    config.stash[_HEARTBEAT] = ExitStack()
    if elsewhere is None:  # runs of --cluster outlive a session that is ended so
        config.stash[_HEARTBEAT].enter_context(sigterm_interrupts())
    config.stash[_HEARTBEAT].enter_context(heartbeat(config))
    config.pluginmanager.register(Interruption(config), "mlebench-interruption")


def _remove_leftovers(config: pytest.Config, *, engines: Iterable[str]) -> None:
    """Remove what killed sessions left on this machine."""
    reporter = reporter_of(config)
    group = session_of(config).group
    clean_folders([group, *group.glob("*")], reporter=reporter)
    for engine in engines:
        from pytest_mlebench.sandbox.docker.cleanup import clean

        with suppress(SandboxError):
            clean(engine, reporter=reporter)


def plan_runs(config: pytest.Config, runs: Iterable[tuple[str, str, int, str]], *, build: bool) -> None:
    """Note in the run group what this session is going to run, and ``build`` the images that this takes: before the
    first run, so that their progress can be seen.

    Raises UsageError if no run that is left to do can start, and warns if those of some agents cannot.
    """
    if (opened := config.stash.get(_OPENED, None)) is not None:
        planned = [PlannedRun(*run) for run in runs]
        finished = session_of(config).finished
        agents = {run.agent for run in planned if run.key not in finished}
        if build:
            _prepare_sandboxes(config, agents)
        _see_that_runs_can_start(config, agents)  # before the group has any: it is removed if it is new and none can
        opened.plan(planned)


def _prepare_sandboxes(config: pytest.Config, agents: Collection[str]) -> None:
    session, problems = session_of(config), config.stash[_PROBLEMS]
    if session.settings.cluster not in (None, "local"):
        return
    for agent in session.agents:
        if agent.id in agents and agent.id not in problems:
            try:
                session.bench.sandbox(agent).prepare(agent)
            except SandboxError as error:
                problems[agent.id] = str(error)


def _see_that_runs_can_start(config: pytest.Config, agents: Collection[str]) -> None:
    problems = config.stash[_PROBLEMS]
    if not (stopped := {id: problems[id] for id in sorted(problems.keys() & agents)}):
        return
    if stopped.keys() == agents:
        raise UsageError("\n".join(dict.fromkeys(stopped.values())))
    for id, problem in stopped.items():
        reporter_of(config)(WarningNote(f"the runs of {id} will end at once: {problem}"))


def close_group(config: pytest.Config) -> None:
    """Write the run group's reports, complete its manifest, and tell GitHub Actions."""
    opened = config.stash.get(_OPENED, None)
    if _HEARTBEAT in config.stash:
        config.stash[_HEARTBEAT].close()
    group = None if opened is None else opened.close(session_of(config).reader)
    summary = os.environ.get("GITHUB_STEP_SUMMARY")
    if summary and group is not None and group.records and internals.is_on(config, "step-summary"):
        try:
            _write_step_summary(Path(summary), group)
        except OSError as error:
            why = f"$GITHUB_STEP_SUMMARY: {summary} cannot be written: {reason(error)}"
            reporter_of(config)(WarningNote(why))


def _write_step_summary(path: Path, group: RunGroup) -> None:
    """Add the medal table to the summary of a step of GitHub Actions."""
    rates = [section.markdown() for section in rate_sections(overview([group]))]
    text = "\n\n".join([f"# {markdown_text(group.name)}", medal_table(in_order(group.records)).markdown(), *rates])
    with path.open("a", encoding="utf-8") as file:
        file.write(f"{text}\n\n")
