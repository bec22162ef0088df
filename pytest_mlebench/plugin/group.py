"""Run agents in a run group: open it before the first run, record the planned runs, and close it at the end.

The hooks in this module are registered for sessions that run agents or have workers. Depending on ``--prepare``, data
is prepared when an item needs it, or the item is skipped.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from pytest_mlebench.bench import Bench, group_folder
from pytest_mlebench.catalog import Competition
from pytest_mlebench.data.dataset import OBFUSCATED, Dataset
from pytest_mlebench.data.download.kaggle import KaggleDownloads
from pytest_mlebench.data.preparing import no_twin, with_twins
from pytest_mlebench.data.store import DataStore
from pytest_mlebench.errors import CompetitionError, DataError, MLEBenchError, SandboxError, UsageError, reason
from pytest_mlebench.io.processes import sigterm_interrupts
from pytest_mlebench.io.progress import WarningNote
from pytest_mlebench.io.units import plain
from pytest_mlebench.options import Settings, from_manifest
from pytest_mlebench.plugin import collection, internals, reporting
from pytest_mlebench.plugin import session as state
from pytest_mlebench.plugin.collection import CompetitionFile, CompetitionItem, competition_of
from pytest_mlebench.plugin.html import MedalReport
from pytest_mlebench.records.group import GroupReader
from pytest_mlebench.records.manifest import UNKNOWN, Manifest, PlannedRun
from pytest_mlebench.records.record import JOBS, MANIFEST, RUN_LOG, RunKey, RunRecord
from pytest_mlebench.reports.run_details import failure_text
from pytest_mlebench.reports.sections import rate_sections
from pytest_mlebench.reports.tables import in_order, markdown_text, medal_table
from pytest_mlebench.results import find_group
from pytest_mlebench.results.overview import overview
from pytest_mlebench.runs.writer import hold_as_worker
from pytest_mlebench.sandbox.contract import clean_folders
from pytest_mlebench.sandbox.gpus import GpuPool
from pytest_mlebench.sandbox.redaction import tail

if TYPE_CHECKING:
    from pytest_mlebench.agents import Agent
    from pytest_mlebench.catalog import Catalogue
    from pytest_mlebench.records.group import RunGroup
    from pytest_mlebench.runs.writer import OpenGroup


def runs_of(file: CompetitionFile) -> Iterator[AgentRun]:
    """Yield the session's runs on a competition: each agent with each seed."""
    session = state.session_of(file.config)
    for agent in session.agents:
        for seed in range(session.settings.seeds):
            yield AgentRun.of(file, agent, seed)


class AgentRun(CompetitionItem):
    """A run as a pytest item: one agent on one competition with one seed."""

    agent: Agent
    key: RunKey

    @classmethod
    def of(cls, parent: CompetitionFile, agent: Agent, seed: int) -> AgentRun:
        """Create the item of a run. If the run group already has its record, it needs no data and no sandbox."""
        key = RunKey(agent.id, parent.competition.id, seed)
        session = state.session_of(parent.config)
        callobj: Callable[..., None] = _run if session.settings.cluster is None else _fetch
        if key in session.finished:
            callobj = _replay
        item = cls.of_version(parent, parent.competition, name=agent.id, callobj=callobj, of=f"seed={seed}")
        item.agent, item.key = agent, key
        # pytest-timeout must not kill the run, which has its own time limit.
        if parent.config.pluginmanager.hasplugin("timeout") and internals.is_on(parent.config, "timeout"):
            item.add_marker(pytest.mark.timeout(0))
        return item

    def setup(self) -> None:
        """Skip the run if none of the agent's model calls was answered in an earlier run of this process."""
        if why := self.config.stash.get(state.CANNOT_WORK, {}).get(self.agent.id):
            self.stash[state.NOT_RUN] = f"{self.agent.id}: {why}. Its other runs were not started"
            pytest.skip(self.stash[state.NOT_RUN])
        super().setup()


def _replay(request: pytest.FixtureRequest) -> None:
    """Test function of a run that was finished in an earlier session: report its record."""
    record = state.session_of(request.config).finished[request.node.key]
    reporting.note_run(request.node, record, again=True)
    _assert_passed(request, record)


def _run(run_agent: Callable[[], RunRecord], request: pytest.FixtureRequest) -> None:
    """Test function of a run: run the agent and report the record."""
    _get_and_assert_passed(request, run_agent)


def _fetch(dataset: Dataset, request: pytest.FixtureRequest) -> None:
    """Test function of a run that an engine has executed: report the record."""

    def fetch() -> RunRecord:
        record = state.engines().fetched(request.config, request.node.key)
        reporting.note_run(request.node, record, again=True)
        return record

    _get_and_assert_passed(request, fetch)


def _get_and_assert_passed(request: pytest.FixtureRequest, get: Callable[[], RunRecord]) -> None:
    try:
        record = get()
    except MLEBenchError as error:
        request.node.stash[state.HARNESS_ERROR] = plain(str(error))  # may quote an agent
        raise
    _assert_passed(request, record)


def _assert_passed(request: pytest.FixtureRequest, record: RunRecord) -> None:
    session = state.session_of(request.config)
    request.node.stash[state.RECORD] = record
    if record.unanswered and not record.report.valid_submission and request.node.key not in session.finished:
        request.config.stash.setdefault(state.CANNOT_WORK, {})[record.agent] = plain(record.unanswered)
    if not record.outcome.passed or record.outcome.is_below(session.settings.min_medal):
        log = tail(session.group / record.run_id / RUN_LOG)
        pytest.fail(failure_text(record, log, session.settings.min_medal), pytrace=False)


def start(config: pytest.Config) -> None:
    """Determine the run group, the agents and what to collect; raises pytest.UsageError."""
    with state.usage_errors():
        _start_runs(config, state.session_of(config).settings)
        state.check_options(config)
        if state.writes_group(config) and state.settings_of(config).cluster is not None:
            state.engines().check(config)
    collection.start(config)
    register(config)
    if state.writes_group(config):
        if getattr(config.option, "htmlpath", None) and internals.is_on(config, "html"):
            config.pluginmanager.register(MedalReport(config), "mlebench-html")
        reporting.follow(config)


def register(config: pytest.Config) -> None:
    module = sys.modules[__name__]
    if not config.pluginmanager.is_registered(module):
        config.pluginmanager.register(module, "mlebench-running")


def _start_runs(config: pytest.Config, settings: Settings) -> None:
    sent = internals.worker_input(config)
    folder = Path(sent["mlebench_group"]) if sent else _group_folder(settings)
    resumed: tuple[PlannedRun, ...] = ()
    if settings.resume:
        manifest = Manifest.read(folder)
        if manifest is None:
            raise UsageError(f"run group {folder} has no {MANIFEST} and cannot be resumed")
        settings, resumed = state.read_settings(config, from_manifest(manifest, folder / MANIFEST)), manifest.runs
    session = state.session_of(config)
    bench = session.bench
    if sent:
        records = map(RunRecord.from_json, sent["mlebench_finished"])
        session.finished, session.worker = {record.key: record for record in records}, sent["workerid"]
        settings = replace(settings, data=sent["mlebench_data"])
    if settings is not bench.settings:
        bench = Bench(settings=settings, reporter=bench.reporter, workers=bench.workers)
    if not config.option.collectonly:
        bench = bench.settle_twins(folder)
    session.settings, session.bench, session.catalogue = bench.settings, bench, bench.catalogue
    session.agents, session.runs_of = bench.chosen_agents, runs_of
    session.reader, session.resumed = GroupReader(folder), resumed
    if not sent:
        for id in settings.trust_agents if "--trust-agent" in state.given_options(config) else ():
            try:
                _ = bench.registry[id]
            except UsageError as error:
                raise UsageError(f"--trust-agent={id}: {error}") from None
        _check_agents(session)


def _check_agents(session: state.Session) -> None:
    """Check before the first run that secrets are set and there are enough GPUs; raises MLEBenchError.

    On other machines, GPUs are not checked, and secrets only if ``--cluster-keys`` provides them.
    """
    settings, is_remote = session.settings, session.settings.cluster not in (None, "local")
    if settings.cluster_keys is not None:
        state.engines().load_keys(settings.cluster_keys)
    elif is_remote:
        return
    for agent in session.agents:
        session.bench.check_agent(agent)
    if session.settings.gpus and not is_remote:
        GpuPool(session.settings.gpu_ids).check(session.settings.gpus)


def _group_folder(settings: Settings) -> Path:
    resumed, named = settings.resume, settings.run_group
    if resumed is None:
        return group_folder(named, settings.runs_dir)

    folder = find_group(resumed, settings.runs_dir).absolute()
    if named is not None and group_folder(named, settings.runs_dir) != folder:
        raise UsageError(f"--resume={resumed} and --run-group={named} are two groups; give only one of them")
    return folder


_OPENED: pytest.StashKey[OpenGroup] = pytest.StashKey()
_HELD: pytest.StashKey[int | None] = pytest.StashKey()
_PROBLEMS: pytest.StashKey[dict[str, str]] = pytest.StashKey()
"""Why agents cannot start, by agent id."""
_HEARTBEAT: pytest.StashKey[ExitStack] = pytest.StashKey()


@pytest.hookimpl(tryfirst=True)  # before xdist starts its workers
def pytest_sessionstart(session: pytest.Session) -> None:
    """Open the run group; raises pytest.UsageError if it cannot be resumed.

    Problems that keep agents from starting are reported before the first run (see ``plan_runs``).
    """
    _open_group(session.config, state.session_of(session.config))


def _open_group(config: pytest.Config, session: state.Session) -> None:
    if state.is_worker(config) and session.settings.has_runs:
        config.stash[_HELD] = hold_as_worker(session.group)
    if not state.writes_group(config):
        return

    cluster = session.settings.cluster
    with state.usage_errors():
        if (session.group / JOBS).is_dir() and state.has_engines():
            state.engines().check_none_runs(session)
    kinds, problems = {}, config.stash.setdefault(_PROBLEMS, {})
    for agent in session.agents:
        kinds[agent.id] = UNKNOWN
        if cluster not in (None, "local"):  # only the nodes need a sandbox, so this machine may have none
            kinds[agent.id] = UNKNOWN if session.settings.sandbox == "auto" else session.settings.sandbox
            continue
        try:
            sandbox = session.bench.sandbox(agent)
            kinds[agent.id] = sandbox.name
            sandbox.check(agent)
        except SandboxError as error:
            problems[agent.id] = str(error)
    with state.usage_errors():
        config.stash[_OPENED] = session.bench.open_group(
            session.group,
            agents=session.agents,
            sandboxes=kinds,
            competition_file=session.competition_file,
            workers=None if cluster is None else state.engines().machine_shares(session.settings),
            cluster=None if cluster is None else state.engines().description(config),
        )
        # Only now: until the group is open, workers of a killed session may still finish runs.
        assert session.reader is not None
        retried = session.settings.retry_failed
        session.finished = {record.key: record for record in session.reader.records() if record.outcome not in retried}
    reporter = reporting.reporter_of(config)
    clean_folders([session.group, *session.group.glob("*")], reporter=reporter)
    for engine in {"docker", "podman"} & set(kinds.values()):
        from pytest_mlebench.sandbox.docker.cleanup import clean

        with suppress(SandboxError):
            clean(engine, reporter=reporter)
    config.stash[_HEARTBEAT] = ExitStack()
    if cluster is None:  # runs of --cluster continue after SIGTERM to the session
        config.stash[_HEARTBEAT].enter_context(sigterm_interrupts())
    config.stash[_HEARTBEAT].enter_context(reporting.heartbeat(config))
    config.pluginmanager.register(reporting.Interruption(config), "mlebench-interruption")


def plan_runs(config: pytest.Config, runs: Iterable[tuple[str, str, int, str]], *, build: bool) -> None:
    """Record the planned runs in the run group. With ``build``, build sandbox images now to show their progress.

    Raises UsageError if none of the remaining runs can start, and warns if some agents' runs cannot.
    """
    if (opened := config.stash.get(_OPENED, None)) is not None:
        session, problems = state.session_of(config), config.stash[_PROBLEMS]
        planned = [PlannedRun(*run) for run in runs]
        agents = {run.agent for run in planned if run.key not in session.finished}
        if build and session.settings.cluster in (None, "local"):
            for agent in session.agents:
                if agent.id in agents and agent.id not in problems:
                    try:
                        session.bench.sandbox(agent).prepare(agent)
                    except SandboxError as error:
                        problems[agent.id] = str(error)
        # Check before planning: a new group without planned runs is removed if none can start.
        stopped = {id: problems[id] for id in sorted(problems.keys() & agents)}
        if stopped and stopped.keys() == agents:
            raise UsageError("\n".join(dict.fromkeys(stopped.values())))
        for id, problem in stopped.items():
            reporting.reporter_of(config)(WarningNote(f"the runs of {id} will end immediately: {problem}"))
        opened.plan(planned)


@pytest.hookimpl(tryfirst=True)  # before pytest's own
def pytest_runtestloop(session: pytest.Session) -> object | None:
    return None if state.settings_of(session.config).cluster is None else state.engines().loop(session)


def pytest_report_header(config: pytest.Config) -> list[str]:
    return reporting.header(config) if state.settings_of(config).has_runs else []


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    reporting.summarise(terminalreporter, config)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Close the run group, which writes its reports, and add the results to the GitHub Actions summary."""
    config = session.config
    opened = config.stash.get(_OPENED, None)
    if _HEARTBEAT in config.stash:
        config.stash[_HEARTBEAT].close()
    group = None if opened is None else opened.close(state.session_of(config).reader)
    summary = os.environ.get("GITHUB_STEP_SUMMARY")
    if summary and group is not None and group.records and internals.is_on(config, "step-summary"):
        try:
            _write_step_summary(Path(summary), group)
        except OSError as error:
            why = f"$GITHUB_STEP_SUMMARY: {summary} cannot be written: {reason(error)}"
            reporting.reporter_of(config)(WarningNote(why))


def _write_step_summary(path: Path, group: RunGroup) -> None:
    """Append the medal table and rates to the step summary of GitHub Actions."""
    rates = [section.markdown() for section in rate_sections(overview([group]))]
    text = "\n\n".join([f"# {markdown_text(group.name)}", medal_table(in_order(group.records)).markdown(), *rates])
    with path.open("a", encoding="utf-8") as file:
        file.write(f"{text}\n\n")


_DATASET = "dataset"
"""Name of the fixture that needs a competition's data."""
_PLAN = "mlebench_plan"
_CHECKED = pytest.StashKey[bool]()


class Plan(NamedTuple):
    """A session's runs as (agent, competition id, seed, node id), and the folders of competitions whose data is needed.

    ``runs_nothing`` is True if there are items but none runs an agent. Only plain values, which xdist can send.
    """

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
            runs_nothing=bool(items)
            and not any(isinstance(item, AgentRun) or "agent" in getattr(item, "fixturenames", ()) for item in items),
        )


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Before xdist starts a worker: send it the run group, and open a channel for its plan and events."""
    session = state.session_of(node.config)
    if session.settings.has_runs:  # all share one group, whose records are read only once
        node.workerinput["mlebench_group"] = str(session.group)
        node.workerinput["mlebench_finished"] = [record.to_json() for record in session.finished.values()]
        node.workerinput["mlebench_data"] = session.settings.data
    internals.open_worker_channel(node, partial(_receive, node))


def _receive(node: Any, message: tuple[str, Any]) -> None:
    kind, values = message
    if kind == "plan":
        setattr(node, _PLAN, Plan(*values))
    else:
        reporting.receive(node.config, node.gateway.id, values)


def collection_finished(session: pytest.Session) -> None:
    """Handle the end of the collection if items are about competitions. With xdist, only workers have items."""
    plan = Plan.of(session.items, state.session_of(session.config).bench.catalogue)
    if state.is_worker(session.config):
        internals.send_to_controller(session.config, ("plan", tuple(plan)))
    else:
        _start_plan(session.config, plan)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_node_collection_finished(node: Any) -> None:
    """Use the plan of the first worker that has sent its items, because all have the same."""
    if (plan := getattr(node, _PLAN, None)) is not None and not node.config.stash.get(_CHECKED, False):
        node.config.stash[_CHECKED] = True
        _start_plan(node.config, plan)


def _start_plan(config: pytest.Config, plan: Plan) -> None:
    """Check before the first test that data is available and runs can start, and record the runs in the group.

    Data comes first, because building images may take minutes. Raises pytest.UsageError.
    """
    bench = state.session_of(config).bench
    with state.usage_errors():
        if bench.settings.has_runs and plan.runs_nothing:
            where = ", ".join(config.args)
            raise UsageError(f"nothing in {where} runs an agent: name a competition folder, or leave out --agent")
        if config.option.collectonly:
            return

        has_data = check(bench, plan.folders, [Path(arg.partition("::")[0]).name for arg in config.args])
        plan_runs(config, plan.runs, build=has_data)


def provide(item: pytest.Item, competition: Competition, store: DataStore, bench: Bench) -> Dataset:
    """Return the competition's prepared dataset. It is not prepared here if the run's node will pull it.

    Skips the item if preparing is not allowed; raises DataError.
    """
    settings = bench.settings
    if settings.has_twins and not competition.has_twin:
        item.stash[state.NOT_PREPARED] = reason = no_twin(competition)
        pytest.skip(reason)
    if settings.nodes_pull and isinstance(item, AgentRun):
        return store.dataset(competition)
    if settings.prepare == "never":
        if reason := bench.why_not_prepared(competition, store):
            item.stash[state.NOT_PREPARED] = reason
            pytest.skip(reason)
        return store.dataset(competition)
    return store.prepare(competition, downloads=KaggleDownloads(), reporter=bench.reporter, **bench.prepare_options)


def check(bench: Bench, folders: Iterable[str], named: Collection[str] = ()) -> bool:
    """Check before the first test that the data of these competitions is available; raises UsageError.

    With ``--prepare=never``, return whether any is prepared. ``named`` has the ids that the user named explicitly.
    """
    settings, competitions = bench.settings, []
    for folder in folders:
        with suppress(CompetitionError):  # reported when it is collected
            competitions.append(Competition.load(Path(folder), version=settings.version))
    if not competitions:
        return False
    if settings.has_twins:  # twins have their own thresholds
        competitions = with_twins(competitions, named)
    elif settings.has_runs:
        for placeholder in filter(None, (competition.placeholder_scores for competition in competitions)):
            bench.reporter(WarningNote(f"medals mean nothing yet: {placeholder}"))
    if settings.description == OBFUSCATED:
        if not settings.has_runs and settings.real_data:
            raise UsageError("--description=obfuscated is for runs: add --agent=ID, or leave it out")
        errors = []
        for competition in competitions:
            try:
                _ = competition.obfuscated_description
            except CompetitionError as error:
                errors.append(str(error))
        if errors:
            raise UsageError("\n".join(errors))
    options = bench.prepare_options
    try:
        store = bench.store
        if settings.prepare == "never":
            store.check()
            return any(store.is_usable(competition, **options) for competition in competitions)
        if settings.nodes_pull:  # data is downloaded to the nodes' disks
            options["check_disk"] = False
        if missing := store.check_all(competitions, KaggleDownloads(), reporter=bench.reporter, **options):
            raise DataError("\n".join(map(str, missing.values())))
    except DataError as error:
        advice = "" if settings.prepare == "never" else "\nTo skip what is not prepared: --prepare=never"
        raise UsageError(f"{error}{advice}") from error
    return True
