"""Runs an agent on a competition in a sandbox, with its variables and data; grades and records the run."""

from __future__ import annotations

import logging
import os
import platform
import secrets
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pytest_mlebench import defaults
from pytest_mlebench._version import __version__
from pytest_mlebench.agents import Agent, Permissions
from pytest_mlebench.agents.registry import Launch
from pytest_mlebench.catalog import Competition
from pytest_mlebench.catalog.competition import command, read_text
from pytest_mlebench.data.dataset import OBFUSCATED, Dataset, fingerprint, keep_level, level_file
from pytest_mlebench.errors import (
    AgentError,
    DataError,
    MLEBenchError,
    SandboxError,
    UsageError,
    expect,
    number,
    quoted,
)
from pytest_mlebench.grading.grader import FormChecker, Grader, GradingLimits
from pytest_mlebench.io.files import expanded, remove_tree
from pytest_mlebench.io.processes import dead_folders, owned_prefix
from pytest_mlebench.io.units import pluralize
from pytest_mlebench.io.values import write_json
from pytest_mlebench.records.group import GroupReader, mark_running, runs_in_progress
from pytest_mlebench.records.outcome import NO_SUBMISSION, Report, SandboxAccount
from pytest_mlebench.records.record import RUNNING, SEEDS, SUBMISSION, VALIDATION, RunKey, RunRecord, Usage, bounded
from pytest_mlebench.runs.files import open_files, read_validation_score, timeline
from pytest_mlebench.sandbox import Ending, Execution, Limits, Sandbox, Task
from pytest_mlebench.sandbox.collection import FOLDER, SnapshotPolicy, Snapshots
from pytest_mlebench.sandbox.contract import Steps
from pytest_mlebench.sandbox.local.sandbox import link_tree
from pytest_mlebench.sandbox.network.policy import Destination, endpoints
from pytest_mlebench.sandbox.redaction import Redactor

if TYPE_CHECKING:
    from pytest_mlebench.llm.accounting import GatewaySettings
    from pytest_mlebench.llm.api import Provider
    from pytest_mlebench.llm.gateway import RunGateway


OBFUSCATED_NAME = "competition"
"""Name shown to agents for an obfuscated competition."""
_FOLDER_PREFIX = ".shown-"


@contextmanager
def obfuscated_data(dataset: Dataset, *, keep: bool) -> Iterator[Path]:
    """Create a folder with the public files, hard-linked if possible, and the obfuscated description.

    It is created in the data folder, and removed afterwards unless ``keep``. Raises SandboxError if that fails, and
    CompetitionError if the competition has no obfuscated description.
    """
    text = read_text(dataset.competition.obfuscated_description)
    store = dataset.folder.parent
    for dead in dead_folders(_FOLDER_PREFIX, [store]):
        remove_tree(dead)
    try:
        folder = Path(tempfile.mkdtemp(prefix=".kept-" if keep else owned_prefix(_FOLDER_PREFIX), dir=store)).absolute()
    except OSError as error:
        raise SandboxError(
            f"data folder {store} cannot be written, which --description=obfuscated needs: {error.strerror}"
        ) from error
    try:
        try:
            link_tree(dataset.public, folder)
            (folder / "description.md").unlink(missing_ok=True)
            (folder / "description.md").write_text(text, encoding="utf-8")
        except OSError as error:
            raise SandboxError(f"the public files cannot be linked below {folder}: {error.strerror}") from error
        for path in (folder, *(path for path in folder.rglob("*") if path.is_dir())):
            path.chmod(0o755)
        level_file(folder / "description.md")
        keep_level(folder)
        yield folder
    finally:
        if not keep:
            remove_tree(folder)


_MAX_HOSTS = 100


def run_environment(
    agent: Agent,
    permissions: Permissions,
    gateway: GatewaySettings | None,
    environment: Mapping[str, str] = os.environ,
    *,
    replayed: bool = False,
) -> dict[str, str]:
    """Return the variables of the harness's environment that a run of an agent may use.

    These are the secrets that the user granted, and keys and addresses of model providers, which the gateway replaces.
    Raises AgentError for a secret that was not granted. Also raises it if the agent redirects a provider's address,
    because the gateway would send the provider's key there.
    """
    providers = _providers(gateway)
    permissions.check_secrets(agent, _variables(providers))
    for provider in providers:
        _check_address(agent, provider, providers, permissions, environment)
    names = _variables(each for each in providers if replayed or not each.keys or each.key(environment))
    names |= {*permissions.allow_secrets} & {*agent.secret_names}
    return {name: environment[name] for name in names if environment.get(name)}


def _providers(gateway: GatewaySettings | None) -> list[Provider]:
    return [] if gateway is None else list(gateway.providers.values())


def _variables(providers: Iterable[Provider]) -> set[str]:
    return {name for provider in providers for name in (*provider.keys, *provider.url_variables)}


def _check_address(
    agent: Agent,
    provider: Provider,
    providers: Iterable[Provider],
    permissions: Permissions,
    environment: Mapping[str, str],
) -> None:
    origins = {_origin(provider.base_url), _origin(provider.located(environment).base_url)}
    for name in provider.url_variables:
        url = agent.env_vars.get(name, "")
        if "://" not in url or any(other.is_above(url) for other in providers):
            continue
        if any(character in url for character in "\\@"):
            raise AgentError(f"agent {agent.id}: {name} is {url!r:.100}; an address cannot contain '@' or '\\'")
        destination = Destination.parse(url)
        permitted = any(Destination.parse(text).covers(destination) for text in permissions.allow_hosts)
        if _origin(url) not in origins and not permitted:
            raise AgentError(
                f"agent {agent.id}: its {name} would send the key of {provider.name} to {destination}, which you have "
                f"not permitted: set ${name} in your own environment if the provider is there, or allow it with "
                f"--allow-host={destination} (in Python: Permissions(allow_hosts=[{str(destination)!r}]))"
            )


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port


def check_hosts(agent: Agent, permissions: Permissions, gateway: GatewaySettings | None) -> None:
    """Check that the user permits each host an agent wants to reach. Raises SandboxError for the first that is not."""
    gateway_hosts = {each.host for provider in _providers(gateway) for each in (provider, provider.located())}
    endpoints(agent, Launch(environment=agent.env_vars), permissions.allow_hosts, without=gateway_hosts)


def permissions_of_run(
    agent: Agent, permissions: Permissions, gateway: GatewaySettings | None, account: SandboxAccount
) -> dict[str, Any]:
    """Return, for a run's record, the user's grants that concern its agent, and the permissions that the run used.

    ``used`` holds ``secrets`` passed in plain, ``hosts`` reached directly, ``no_isolation`` and ``privileged``.
    ``bundled`` means that the package permits what the agent's definition requests.
    """
    secrets = {*permissions.allow_secrets} & {*agent.secret_names}
    granted = {
        **permissions.to_json(),
        "allow_secrets": sorted(secrets),
        "trust_agents": [agent.id] if agent.id in permissions.trust_agents else [],
    }
    return {
        "bundled": agent.bundled,
        "granted": {name: value for name, value in granted.items() if value},
        "used": used_permissions(account, sorted(secrets - _variables(_providers(gateway)))),
    }


def used_permissions(account: SandboxAccount, secrets: list[str]) -> dict[str, Any]:
    """Return the permissions that a run used, from its sandbox's account; ``secrets`` are those passed in plain."""
    hosts = {f"{connection.host}:{connection.port}" for connection in account.connections if connection.allowed}
    used = {
        "secrets": secrets,
        "hosts": sorted(hosts)[:_MAX_HOSTS],
        "no_isolation": account.name == "local",
        "privileged": account.privileged,
    }
    return {name: value for name, value in used.items() if value}


logger = logging.getLogger(__name__)

_MAX_NAMES, _MAX_NAME = 3, 80


_UNCONFINED = "this kernel has no Landlock: only its own code keeps the submission checker from the answers"


@cache
def _default_gateway() -> GatewaySettings:
    from pytest_mlebench.llm.accounting import GatewaySettings

    return GatewaySettings()


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """How and where agents run. ``folder`` is the run group's folder.

    >>> options = RunOptions(folder=Path("reports/mine"), limits=Limits(time_limit=600.0))
    >>> options.limits.time_limit
    600.0
    """

    folder: Path
    limits: Limits = field(default_factory=Limits)
    max_submission_bytes: int = defaults.MAX_SUBMISSION_BYTES
    grading: GradingLimits = field(default_factory=GradingLimits)
    keep_sandbox: bool = False
    until: str = "done"
    """When an agent that can be asked again ends: ``done``, when it reports so, or ``limit``, at the time limit."""
    gateway: Callable[[], GatewaySettings] | None = _default_gateway
    """How agents reach language models; None: directly, with the keys that ``permissions`` name."""
    permissions: Permissions = field(default_factory=Permissions)
    """What agents get in addition to a gateway to their model providers. Without permissions, no key or other secret
    reaches an agent. Hosts that they may reach are set in the sandbox: ``DockerSandbox(allow_hosts=…)``."""
    replay: Path | None = None
    """The run group whose recordings are replayed in place of language models."""
    obfuscated: bool = False
    """Agents read the obfuscated description, and nothing around them names the competition."""
    worker: str = ""
    """The xdist worker that runs them."""
    snapshots: SnapshotPolicy | None = field(default_factory=SnapshotPolicy)
    """When snapshots of submissions are taken; None: never."""
    job: Mapping[str, Any] = field(default_factory=dict)
    """For the record: the engine's job that does the run, its node and hardware, and the run ids of earlier attempts
    that were ``interrupted``. Empty if the session does the run itself."""
    steps: Steps | None = None
    """Drives the agent, if it does not drive itself (see ``Task.steps``)."""
    may_record: Callable[[], None] | None = None
    """Called before a run's record is written. If it raises, there is no record, and the run counts as interrupted."""

    def __post_init__(self) -> None:
        expect(self.limits, Limits, "limits", "Limits(time_limit=600) is one")
        expect(self.grading, GradingLimits, "grading", "GradingLimits(seconds=60) is one")
        expect(self.permissions, Permissions, "permissions", "Permissions(allow_secrets=['NAME']) is one")
        number(self.max_submission_bytes, "max_submission_bytes")
        if self.until not in defaults.UNTIL:
            raise UsageError(f"until must be one of {', '.join(defaults.UNTIL)}, not {self.until!r}")
        object.__setattr__(self, "folder", expanded(self.folder))
        if self.replay is not None:
            object.__setattr__(self, "replay", expanded(self.replay))


def check_seed(seed: object) -> None:
    """Raises UsageError unless this is a valid seed."""
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise UsageError(f"the seed must be an integer of at least 0, not {quoted(seed)}")
    if seed >= SEEDS:
        raise UsageError("the seed must be less than 2^63")


def run_agent(
    agent: Agent, competition: Competition, dataset: Dataset, sandbox: Sandbox, options: RunOptions, *, seed: int = 0
) -> RunRecord:
    """Run an agent to its end, grade its submission, and write ``run.json`` into its run directory.

    Whatever the agent does is an outcome in the record. So is an error of the harness, which is not raised: other runs
    continue. An interruption leaves no record and is raised. Raises SandboxError if not even a record can be written,
    CompetitionError if the competition lacks the kind of description that ``options`` request, and AgentError if the
    agent requests a secret that ``options.permissions`` do not grant.

    >>> from pytest_mlebench import DataStore, LocalSandbox, default_agents, default_catalogue
    >>> competition = default_catalogue()["smoke-diabetes"]
    >>> dataset = DataStore().prepare(competition)
    >>> options = RunOptions(folder=Path("reports/mine"))
    >>> record = run_agent(default_agents()["dummy"], competition, dataset, LocalSandbox(), options)
    >>> record.outcome.name, record.score
    ('no_medal', 72.61873)
    """
    _expect_arguments(agent, competition, dataset, sandbox, options, seed)
    if dataset.competition.is_twin:
        competition = dataset.competition
    if options.obfuscated:
        _ = competition.obfuscated_description
    run = _begin(agent, competition, dataset, options, RunKey(agent.id, competition.id, seed))
    started = datetime.now(UTC)
    run_dir, gateway = run.task.run_dir, run.task.gateway
    with mark_running(run_dir, run.key, worker=options.worker, time_limit=options.limits.time_limit):
        execution, error = _execute(run, sandbox)
        ended = datetime.now(UTC)
        report = graded(run.grader, run_dir)
        llm = _without_gateway(agent, options) if gateway is None else gateway.account()
        usage = Usage.of(llm)
        notes = (*execution.sandbox.notes, *_notes(run, usage))
        if options.may_record is not None:
            options.may_record()
        instead = "" if report.submission_exists else _submission_substitute(run_dir, execution)
        complete = RunRecord(
            **_common_fields(agent, competition, dataset, options, run_dir, seed=seed, started=started, ended=ended),
            ending=_ending(execution, usage),
            seconds=round(execution.seconds, 3),
            detail=_detail(execution, usage, gateway, instead),
            exit_code=execution.exit_code,
            signal=execution.signal,
            report=report,
            error=error,
            sandbox=replace(execution.sandbox, notes=notes),
            confinement={"checker": run.checker.confinement, "grader": run.grader.confinement},
            llm=llm,
            validation_score=read_validation_score(run_dir),
            permissions=permissions_of_run(agent, options.permissions, run.settings, execution.sandbox),
        )
        # Before snapshots are graded: if the session is interrupted meanwhile, the run's result is kept.
        record = _written(_with_timeline(run, complete), run_dir)
    if all(point.final for point in record.timeline):
        return record
    return _written(_with_timeline(run, complete, partial(run.grader.report, certainty=False)), run_dir)


@dataclass(frozen=True, kw_only=True)
class _Run:
    """A run that is ready to start: everything that it needs exists, including its directory."""

    key: RunKey
    task: Task
    dataset: Dataset
    options: RunOptions
    settings: GatewaySettings | None
    grader: Grader
    checker: FormChecker


def _expect_arguments(
    agent: Agent, competition: Competition, dataset: Dataset, sandbox: Sandbox, options: RunOptions, seed: int
) -> None:
    expect(agent, Agent, "the agent", "default_agents()['baseline'] is one")
    expect(competition, Competition, "the competition", "default_catalogue()['smoke-digits'] is one")
    expect(dataset, Dataset, "the dataset", "DataStore().prepare(competition) is one")
    expect(options, RunOptions, "options", "RunOptions(folder=Path('reports/mine')) is one")
    if isinstance(sandbox, str | type):
        raise TypeError(f"the sandbox must be one, not {sandbox!r} (LocalSandbox() is one)")
    check_seed(seed)


def _begin(agent: Agent, competition: Competition, dataset: Dataset, options: RunOptions, key: RunKey) -> _Run:
    """Prepare what the run needs, then create its directory. Raises the same errors as ``run_agent``."""
    run_id = _new_run_id(key)
    run_dir = options.folder / run_id
    # An episode's seed determines its twin, so the episode's commands must not see it.
    variables = {"SEED": str(key.seed), "UNTIL": options.until} if options.steps is None else {}
    settings = _gateway_settings(agent, options)
    granted = run_environment(agent, options.permissions, settings, replayed=options.replay is not None)
    gateway = None if settings is None else _gateway(settings, agent, run_dir, options, key, variables, granted)
    launch = agent.launch(granted) if gateway is None else Launch()
    launch = replace(launch, environment={**variables, **launch.environment})
    if not dataset.is_level:
        raise DataError(
            f"{competition.id}: {dataset.prepared} is not prepared, or the times and inodes of its files may reveal "
            f"answers; `DataStore(…).prepare` and `{command('prepare', competition)}` fix both"
        )
    max_bytes = options.max_submission_bytes
    grader = Grader(competition, dataset, max_bytes=max_bytes, limits=options.grading)
    checker = FormChecker(competition, dataset.public, max_bytes=max_bytes, limits=options.grading)
    snapshots = None
    if options.snapshots is not None:
        spent = dict if gateway is None else gateway.account
        snapshots = Snapshots(run_dir / FOLDER, policy=options.snapshots, max_bytes=max_bytes, spent=spent)
    _create_folder(run_dir)  # last, so that no failure above leaves an empty folder
    task = Task(
        competition_id=OBFUSCATED_NAME if options.obfuscated else competition.id,
        agent=agent,
        launch=launch,
        gateway=gateway,
        public=dataset.public,
        run_dir=run_dir,
        validate=checker,
        stop_validation=checker.stop,
        max_submission_bytes=max_bytes,
        limits=options.limits,
        labels={"run_group": options.folder.name, "run_id": run_id, "worker": options.worker},
        snapshots=snapshots,
        steps=options.steps,
        anonymous=options.obfuscated,
        keep=options.keep_sandbox,
    )
    return _Run(key=key, task=task, dataset=dataset, options=options, settings=settings, grader=grader, checker=checker)


def _create_folder(run_dir: Path, *, may_exist: bool = False) -> None:
    try:
        run_dir.mkdir(parents=True, exist_ok=may_exist)
    except OSError as problem:
        raise SandboxError(f"run directory {run_dir} cannot be created: {problem.strerror}") from problem


def _execute(run: _Run, sandbox: Sandbox) -> tuple[Execution, str | None]:
    """Run the agent to its end. Returns the execution, and the error of the harness if it failed."""
    data: AbstractContextManager[Path] = nullcontext(run.dataset.public)
    if run.options.obfuscated:
        data = obfuscated_data(run.dataset, keep=run.options.keep_sandbox)
    try:
        with data as public:
            return sandbox.run(replace(run.task, public=public)), None
    except Exception as problem:
        message = str(problem)
        if not isinstance(problem, MLEBenchError):
            logger.exception("%s: the harness failed", run.task.run_dir)
            message = f"{type(problem).__name__}: {problem}"
        return Execution(ending=Ending.NOT_STARTED, seconds=0.0), message


def _notes(run: _Run, usage: Usage) -> Iterator[str]:
    """Yield the record's notes that do not come from the sandbox. Writes the trajectory."""
    yield from run.task.snapshots.notes if run.task.snapshots else ()
    if not run.checker.confinement.get("landlock"):
        yield _UNCONFINED
    if run.task.gateway:
        yield from _write_trajectory(run.task.run_dir, run.task.agent, run.options)
        if lacking := usage.left_out:
            why = "it would be too large"
            if usage.write_error:
                why += f", or could not be written: {usage.write_error}"
            yield f"the recording lacks {pluralize(lacking, 'model call')}, or their contents: {why}"
        elif usage.write_error:
            yield f"the account of model calls could not always be written: {usage.write_error}"


def _common_fields(
    agent: Agent,
    competition: Competition,
    dataset: Dataset,
    options: RunOptions,
    run_dir: Path,
    *,
    seed: int,
    started: datetime,
    ended: datetime,
) -> dict[str, Any]:
    """Return the fields of a record that do not depend on how the run ended."""
    return {
        "run_id": run_dir.name,
        "run_group": options.folder.name,
        **about_data(competition, dataset),
        "agent": agent.id,
        "seed": seed,
        "started_at": started.isoformat(),
        "ended_at": ended.isoformat(),
        "versions": {"pytest-mlebench": __version__, "python": platform.python_version()},
        "limits": asdict(options.limits),
        "agent_definition": {**agent.describe(), "until": options.until},
        "description": OBFUSCATED if options.obfuscated else dataset.description,
        "job": options.job,
    }


def _with_timeline(run: _Run, complete: RunRecord, grade: Callable[[Path], Report] | None = None) -> RunRecord:
    """Return the record with the snapshots of the submission, if any were taken; ``grade`` grades them."""
    if (snapshots := run.task.snapshots) is None:
        return complete
    limit = run.options.limits.timeline_seconds
    return replace(complete, timeline=timeline(snapshots, complete, run.task.run_dir, grade=grade, limit=limit))


def about_data(competition: Competition, dataset: Dataset) -> dict[str, Any]:
    """Return the fields of a record about the competition and its data."""
    return {
        "competition_id": competition.id,
        "split": competition.split_label,
        "category": competition.category,
        "data_verified": dataset.is_verified,
        "data": fingerprint(dataset),
        "synthetic_data": dataset.is_synthetic,
        "twin": dataset.twin,
        "data_source": dataset.source,
    }


def graded(grader: Grader, run_dir: Path) -> Report:
    """Grade the submission in a run directory. Errors about the submission do not name the directory."""
    report = grader.report(run_dir / SUBMISSION)
    if report.error is None or report.grader_defect:
        return report
    error = report.error.replace(f"{run_dir}/", "") if report.submission_exists else NO_SUBMISSION
    return replace(report, error=error)


def interrupted_runs(group: Path, key: RunKey) -> list[str]:
    """Return the ids of earlier attempts at a run that were ended from outside. Their directories are kept."""
    return [run.run_dir.name for run in runs_in_progress(group) if run.key == key]


def record_lost(
    agent: Agent,
    competition: Competition,
    dataset: Dataset,
    options: RunOptions,
    *,
    seed: int,
    ending: Ending,
    detail: str,
) -> RunRecord:
    """Write the record of a run whose process was ended from outside, into its directory, or a new one.

    With the ending ``NOT_STARTED``, it counts as an error of the harness, with ``detail`` as the reason. Otherwise it
    counts as that ending of the agent, with the submission collected so far, if any. Raises SandboxError.
    """
    if dataset.competition.is_twin:
        competition = dataset.competition
    key, now = RunKey(agent.id, competition.id, seed), datetime.now(UTC)
    found = [run for run in runs_in_progress(options.folder) if run.key == key]
    run_dir = found[-1].run_dir if found else options.folder / _new_run_id(key)
    started = datetime.fromtimestamp(found[-1].started, UTC) if found else now
    _create_folder(run_dir, may_exist=True)
    grader = Grader(competition, dataset, max_bytes=options.max_submission_bytes, limits=options.grading)
    lost = RunRecord(
        **_common_fields(agent, competition, dataset, options, run_dir, seed=seed, started=started, ended=now),
        ending=ending,
        seconds=max(0.0, round((now - started).total_seconds(), 3)),  # the clock of another machine may be ahead
        detail=detail,
        report=graded(grader, run_dir),
        error=detail if ending is Ending.NOT_STARTED else None,
        llm=_recorded_calls(run_dir, replayed=options.replay is not None) or _without_gateway(agent, options),
        permissions=permissions_of_run(agent, options.permissions, _gateway_settings(agent, options), SandboxAccount()),
    )
    record = _written(lost, run_dir)
    (run_dir / RUNNING).unlink(missing_ok=True)
    return record


def _recorded_calls(run_dir: Path, *, replayed: bool) -> dict[str, Any]:
    """Return the totals of the model calls in a run's ledger; empty if it has none."""
    from pytest_mlebench.llm.ledger import Call, Totals, read_calls

    totals, providers = Totals(), set()
    for line in read_calls(run_dir):
        call = Call.from_json(line)
        totals.add(call)
        providers.add(call.provider)
    about = {"gateway": "replay" if replayed else "on", "providers": sorted(providers)}
    return {**about, **totals.to_json()} if providers else {}


def _write_trajectory(run_dir: Path, agent: Agent, options: RunOptions) -> Iterator[str]:
    """Write ``trajectory.json`` from the recording of model calls. Yields notes for the record; never raises."""
    from pytest_mlebench.llm.trajectory import TRAJECTORY, build

    providers = options.gateway().providers.values() if options.gateway is not None else ()
    names = {*agent.secret_names, *(key for provider in providers for key in provider.keys)}
    redactor = Redactor(os.environ.get(name, "") for name in names)
    try:
        trajectory = build(run_dir, agent=agent.id, clean=redactor.text)
        if trajectory is not None:
            write_json(run_dir / TRAJECTORY, trajectory)
    except Exception as problem:  # whatever an agent's calls contain, its run counts
        logger.warning("%s: no trajectory", run_dir, exc_info=True)
        yield f"no trajectory: {type(problem).__name__}: {problem}"


def _written(complete: RunRecord, run_dir: Path) -> RunRecord:
    record = bounded(complete)
    try:
        record.write(run_dir)
    except OSError as problem:
        raise SandboxError(f"the run's record cannot be written to {run_dir}: {problem.strerror}") from problem
    return record


def _gateway_settings(agent: Agent, options: RunOptions) -> GatewaySettings | None:
    return options.gateway() if options.gateway is not None and agent.may_ask_models else None


def _without_gateway(agent: Agent, options: RunOptions) -> dict[str, Any]:
    """Return the account of a run without a gateway."""
    return {"gateway": "off"} if options.gateway is None and agent.may_ask_models else {}


def _gateway(
    settings: GatewaySettings,
    agent: Agent,
    run_dir: Path,
    options: RunOptions,
    key: RunKey,
    variables: Mapping[str, str],
    environment: Mapping[str, str],
) -> RunGateway | None:
    """Return the gateway of a run; None if the agent needs none. Raises SandboxError."""
    from pytest_mlebench.llm.gateway import RunGateway, has_recording, providers_of

    if not providers_of(settings, agent, environment, replayed=options.replay is not None):
        return None
    replay = None
    if group := options.replay:
        recorded = (group / record.run_id for record in _reader(group).records() if record.key == key)
        if (replay := next(filter(has_recording, recorded), None)) is None:
            raise SandboxError(
                f"{group} has no recording of {key.agent} on {key.competition_id} with seed {key.seed} to replay"
            )
    return RunGateway(settings, agent, run_dir=run_dir, variables=variables, replay=replay, environment=environment)


_reader = cache(GroupReader)
"""The reader of a replayed group, cached so that its records are read once for all runs."""


def _ending(execution: Execution, usage: Usage) -> Ending:
    """Return the ending: ``BUDGET_ENDED`` if the agent exited after its budget ended, even if it reports a failure."""
    by_itself = execution.ending in (Ending.FINISHED, Ending.CRASHED) and execution.exit_code is not None
    return Ending.BUDGET_ENDED if by_itself and usage.budget_ended else execution.ending


def _detail(execution: Execution, usage: Usage, gateway: RunGateway | None, instead: str) -> str:
    budget = usage.budget_ended
    if budget and _ending(execution, usage) != Ending.BUDGET_ENDED:
        budget = f"budget ended: {budget}"
    missed = "" if gateway is None else _missed_gateway(execution, usage, gateway)
    return "; ".join(filter(None, (execution.detail, budget, _refused(execution, usage), missed, instead)))


def _refused(execution: Execution, usage: Usage) -> str:
    """Return why model calls failed, if that may explain the agent's failure; empty otherwise."""
    refusals = usage.refusals
    failed = not usage.calls or execution.ending == Ending.CRASHED
    if not failed or usage.budget_ended or not refusals:
        return ""
    return f"{pluralize(sum(refusals.values()), 'model call')} failed: {max(refusals, key=lambda text: refusals[text])}"


def _submission_substitute(run_dir: Path, execution: Execution) -> str:
    """Describe what an agent left in place of ``submission.csv``; empty if nothing."""
    submission = run_dir / SUBMISSION
    left_out = (name for name in execution.sandbox.left_out if name.startswith(f"{SUBMISSION} ("))
    if what := next(left_out, None):
        why = what.partition(" (")[2].removesuffix(")")
        return f"{submission.name} is a folder" if why == "a folder" else f"{submission.name} was not collected: {why}"
    with open_files(run_dir) as files:
        paths = [file.path for file in files.below(submission.parent.name) if file.path != VALIDATION]
    names = list(dict.fromkeys(repr(path.split("/")[1][:_MAX_NAME]) for path in paths))
    more = ", …" if names[_MAX_NAMES:] else ""
    return f"$SUBMISSION_DIR holds {', '.join(names[:_MAX_NAMES])}{more}" if names else ""


def _missed_gateway(execution: Execution, usage: Usage, gateway: RunGateway) -> str:
    """Return advice if the agent has a provider's address built in, and so bypasses the gateway; empty otherwise."""
    hosts = gateway.hosts
    refused = {call.host for call in execution.sandbox.connections if not call.allowed and call.host in hosts}
    is_unused = not usage.calls and not usage.errors
    if refused:
        what, variables = f"it called {', '.join(sorted(refused))} directly", {hosts[host] for host in refused}
    elif is_unused and execution.ending == Ending.CRASHED:
        what, variables = "it called no model through the gateway", set(hosts.values())
    else:
        return ""
    source = " or ".join(f"${name}" for name in sorted(variables) if name) or "its environment"
    return f"{what}: let it take its base URL from {source}, or use --llm-gateway=off"


def _new_run_id(key: RunKey) -> str:
    return f"{key.run_prefix}{secrets.token_hex(4)}"
