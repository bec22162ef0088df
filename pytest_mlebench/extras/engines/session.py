"""A session that submits all its runs to an engine at the start, and reports them as they end.

The plugin finds this module by its entry point. ``plugin.session.Engines`` defines the functions that it calls.
"""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections import deque
from collections.abc import Collection, Generator, Mapping, Sequence
from contextlib import closing
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_mlebench._version import __version__
from pytest_mlebench.bench import Bench
from pytest_mlebench.catalog.catalogue import load
from pytest_mlebench.errors import ClusterError, MLEBenchError, SandboxError, UsageError
from pytest_mlebench.extras.engines.contract import Cause, Job, JobState, engine, engines
from pytest_mlebench.extras.engines.plan import JobPlan, load_keys, open_plans
from pytest_mlebench.extras.engines.queue import RunQueue, RunResult
from pytest_mlebench.extras.engines.resources import check_largest, is_known, job_resources, request_text
from pytest_mlebench.io.progress import Note
from pytest_mlebench.io.units import pluralize
from pytest_mlebench.plugin import internals
from pytest_mlebench.plugin.group import AgentRun, provide
from pytest_mlebench.plugin.reporting import reporter_of, resume_command
from pytest_mlebench.plugin.session import Session, session_of, usage_errors
from pytest_mlebench.records.manifest import folder_digest
from pytest_mlebench.records.outcome import Ending
from pytest_mlebench.runs import run
from pytest_mlebench.sandbox.redaction import has_secret_name

if TYPE_CHECKING:
    from pytest_mlebench.data.dataset import Dataset
    from pytest_mlebench.extras.engines.contract import Engine
    from pytest_mlebench.options import Settings
    from pytest_mlebench.records.record import RunKey, RunRecord

__all__ = ["check", "check_none_runs", "description", "fetched", "load_keys", "loop", "machine_shares"]

_RESULTS = pytest.StashKey["dict[RunKey, RunResult]"]()
_ENGINE: pytest.StashKey[Engine] = pytest.StashKey()
_PAUSE_SECONDS = 0.25
_NEEDED = ("RAY_", "SLURM_", "AWS_ACCESS_KEY_ID")
"""Beginnings of variables that sound secret, but that an engine or its jobs may need; the last one is no secret."""
_RUN_ONE = (sys.executable, "-m", "pytest_mlebench.cli", "run-one")


def check(config: pytest.Config) -> None:
    """Check that runs can be submitted to the engine of ``--cluster``; raises UsageError."""
    settings = session_of(config).settings
    if not settings.has_runs or settings.cluster is None:
        return
    if internals.has_workers(config):
        raise UsageError(
            "-n starts workers that wait for runs; with --cluster, one process submits runs to the engine, which "
            "executes them in parallel: leave out -n (or add -n0), and use --max-parallel=N"
        )
    try:
        config.stash[_ENGINE] = chosen = engine(settings.cluster, settings, _secret_names(session_of(config).bench))
        chosen.check()
    except ClusterError as error:
        raise UsageError(f"--cluster={settings.cluster}: {error}") from error


def _secret_names(bench: Bench) -> tuple[str, ...]:
    """The environment variables that hold agents' secrets or keys of model providers, or that sound like secrets."""
    settings = bench.settings
    names = {name for agent in bench.chosen_agents for name in agent.secret_names}
    names |= {name for name in os.environ if has_secret_name(name) and not name.startswith(_NEEDED)}
    if settings.llm_gateway != "off":
        providers = bench.gateway.providers.values()
        names |= {key for provider in providers for key in provider.keys}
    if settings.nodes_pull:
        names |= {"AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "MLEBENCH_DATA_SOURCE"}
    return tuple(sorted(names))


def description(config: pytest.Config) -> Mapping[str, str] | None:
    """The engine's description for the manifest; None if the session executes its runs itself."""
    chosen = engine_of(config)
    return None if chosen is None else chosen.describe()


def engine_of(config: pytest.Config) -> Engine | None:
    """The engine of this session; None if it executes its runs itself."""
    return config.stash.get(_ENGINE, None)


def machine_shares(settings: Settings) -> int:
    """The number of runs that share one machine with ``--cluster``."""
    return (settings.max_parallel or 1) if settings.cluster == "local" else 1


def check_none_runs(session: Session) -> None:
    """Raise UsageError if jobs of an earlier session still run that this session cannot continue."""
    group, installed = session.group, engines()
    jobs: dict[str, list[Job]] = {}
    for plan, job in open_plans(group):
        if plan.engine != session.settings.cluster:
            jobs.setdefault(plan.engine, []).append(job)
    for name, submitted in jobs.items():
        count = len(submitted)
        if name in installed:
            try:
                statuses = installed[name]().poll(submitted).values()
            except ClusterError as error:
                raise UsageError(f"{group}: the status of an earlier session's jobs is unknown: {error}") from error
            count = sum(status.state is not JobState.ENDED for status in statuses)
        if count:
            raise UsageError(
                f"{pluralize(count, 'run')} of {group} may still be running, submitted to --cluster={name} by an "
                f"earlier session: continue them with --cluster={name} and without -n, or end them: "
                f"`mlebench stop {shlex.quote(str(group))}`"
            )


def loop(session: pytest.Session) -> bool | None:
    """Run the items of a session with ``--cluster``, the engine's runs as they end. Returns None for other sessions."""
    config = session.config
    if engine_of(config) is None or config.option.collectonly:
        return None
    if session.testsfailed and not config.option.continue_on_collection_errors:
        return None  # pytest reports it

    finished = session_of(config).finished
    runs = [item for item in session.items if isinstance(item, AgentRun) and item.key not in finished]
    chosen = set(runs)
    remaining = len(session.items)
    with closing(_items(config, [item for item in session.items if item not in chosen], runs)) as items:
        for item in items:
            remaining -= 1
            internals.run_item(session, item, is_last=not remaining)
    return True


def _items(
    config: pytest.Config, others: Sequence[pytest.Item], runs: Sequence[AgentRun]
) -> Generator[pytest.Item, None, None]:
    """All items: those that this process runs, and each run at the engine when it has ended."""
    results: dict[RunKey, RunResult] = {}
    config.stash[_RESULTS] = results
    with usage_errors():
        queue = _queue(config, runs)
    waiting, pending, digest = {item.key: item for item in runs}, deque(others), cache(folder_digest)
    results |= _just_finished(config, waiting)
    unsubmitted = deque(item for item in runs if item.key not in results)
    try:
        for key in list(results):
            yield waiting.pop(key)
        while pending or unsubmitted or not queue.is_empty:
            if unsubmitted:
                item = unsubmitted.popleft()
                if not _has_data(config, item):  # its fixture reports why
                    yield waiting.pop(item.key)
                    continue
                with usage_errors():
                    queue.add(_plan(config, item, digest(item.agent.folder)))
            for result in queue.step():
                results[result.key] = result
                yield waiting.pop(result.key)
            if pending and not unsubmitted:
                yield pending.popleft()
            elif not unsubmitted and not queue.is_empty:
                time.sleep(_PAUSE_SECONDS)
    finally:
        _leave(config, queue)


def _just_finished(config: pytest.Config, keys: Collection[RunKey]) -> dict[RunKey, RunResult]:
    """The runs that an earlier session's jobs have finished since this session read the finished runs. Must be called
    after the queue has read which jobs are unfinished."""
    session = session_of(config)
    assert session.reader is not None
    found = {record.key: record for record in session.reader.records() if record.key in keys}
    again = session.settings.retry_failed
    return {key: RunResult(key=key, record=record) for key, record in found.items() if record.outcome not in again}


def fetched(config: pytest.Config, key: RunKey) -> RunRecord:
    """The record of a run that an engine executed; raises SandboxError if there is none."""
    result = config.stash[_RESULTS][key]
    if result.record is None:
        raise SandboxError(result.error)
    return result.record


def _queue(config: pytest.Config, runs: Sequence[AgentRun]) -> RunQueue:
    """The queue of these runs; raises ClusterError if the engine can never provide the resources of a job."""
    session, chosen = session_of(config), engine_of(config)
    assert session.reader is not None and chosen is not None
    settings = session.settings
    competitions = {item.key.competition_id: item.competition for item in runs}

    def dataset(competition_id: str, seed: int) -> Dataset:
        return session.bench.store_of(seed).dataset(competitions[competition_id])

    datasets = [dataset(*key) for key in {(item.key.competition_id, item.key.seed) for item in runs}]
    requested = [job_resources(settings, one) for one in datasets if is_known(settings, one)]
    if requested and settings.cluster != "local":
        check_largest(chosen, settings, requested)
        reporter_of(config)(Note(request_text(chosen.name, settings, requested)))
    if settings.detach:
        reporter_of(config)(
            Note("this session waits for its jobs: press Ctrl-C to leave, and the jobs continue (--detach)")
        )
    return RunQueue(
        session.group,
        chosen,
        reader=session.reader,
        resources=lambda plan: job_resources(settings, dataset(plan.competition_id, plan.seed)),
        command=lambda plan, name: [*_RUN_ONE, str(plan), f"--name={name}"],
        record_lost=partial(_record_lost, config),
        reporter=reporter_of(config),
        max_parallel=session.settings.max_parallel,
    )


def _plan(config: pytest.Config, item: AgentRun, agent_digest: str) -> JobPlan:
    session = session_of(config)
    settings, replayed = session.settings, session.bench.replayed_group
    return JobPlan(
        name="",
        engine="",
        agent=item.key.agent,
        competition_id=item.key.competition_id,
        seed=item.key.seed,
        competition_file=str(item.path.absolute()),
        options={
            **session.bench.session_options,
            "--keep-sandbox": settings.keep_sandbox,
            **({} if replayed is None else {"--llm-replay": str(replayed)}),
        },
        version=__version__,
        agent_digest=agent_digest,
        keys_file="" if settings.cluster_keys is None else str(settings.cluster_keys),
        workers=machine_shares(settings),
        max_requeues=settings.max_requeues,
    )


def _has_data(config: pytest.Config, item: AgentRun) -> bool:
    """Prepare the run's data on this machine; returns False if that fails or is not allowed."""
    bench = session_of(config).bench
    try:
        provide(item, item.competition, bench.store_of(item.key.seed), bench)
    except (MLEBenchError, pytest.skip.Exception):
        return False
    return True


def _record_lost(config: pytest.Config, plan: JobPlan, cause: Cause, reason: str) -> RunRecord:
    session = session_of(config)
    settings = session.settings
    competition = load(Path(plan.competition_file), settings.version)
    job = plan.account(interrupted=run.interrupted_runs(session.group, plan.key))
    endings = {Cause.TIMED_OUT: Ending.TIMED_OUT, Cause.OUT_OF_MEMORY: Ending.OUT_OF_MEMORY}
    store = session.bench.store_of(plan.seed)
    if settings.nodes_pull:  # the submission is graded here
        store.prepare(competition, reporter=reporter_of(config), **session.bench.prepare_options)
    lost = f"its job was lost {plan.attempt + 1} times; the last time: {reason}"
    return run.record_lost(
        next(agent for agent in session.agents if agent.id == plan.agent),
        competition,
        store.dataset(competition),
        session.bench.run_options(session.group, job=job),
        seed=plan.seed,
        ending=endings.get(cause, Ending.NOT_STARTED),
        detail=reason if cause in endings else lost,
    )


def _leave(config: pytest.Config, queue: RunQueue) -> None:
    """End the jobs that remain when a session is interrupted; with ``--detach``, let them continue."""
    if not queue.live:
        return
    settings, say = session_of(config).settings, partial(internals.write_line, config)
    if settings.detach:
        runs = "1 run continues" if queue.live == 1 else f"{queue.live} runs continue"
        waiting = "waiting runs start by themselves"
        if queue.waiting:
            waiting = f"{pluralize(queue.waiting, 'further run')} will start only when you resume the group"
        say(f"mlebench: {runs} without this session; {waiting}")
        say(f"mlebench: to continue the session: {resume_command(config)}")
        say(f"mlebench: to end the jobs: mlebench stop {shlex.quote(str(session_of(config).group))}")
        return
    say(f"mlebench: ending {pluralize(queue.live, 'job')} of {settings.cluster}")
    try:
        queue.cancel()
    except ClusterError as error:
        say(f"mlebench: jobs cannot be ended: {error}")
