"""``mlebench run-one``, the command of every engine's jobs: it does one run as a session would, from a plan. And
``mlebench stop``, which ends the jobs of a group."""

from __future__ import annotations

import argparse
import os
import socket
from contextlib import nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from pytest_mlebench._version import __version__
from pytest_mlebench.agents import Agent
from pytest_mlebench.bench import Bench
from pytest_mlebench.catalog import Competition
from pytest_mlebench.catalog.catalogue import load
from pytest_mlebench.cli.common import add_options, logger, read_settings, user_path
from pytest_mlebench.data.dataset import Dataset
from pytest_mlebench.errors import ClusterError, DataError, MLEBenchError, UsageError
from pytest_mlebench.extras.engines import plan as plans
from pytest_mlebench.extras.engines.contract import engines
from pytest_mlebench.extras.engines.plan import JobEnd, JobPlan
from pytest_mlebench.extras.engines.queue import stop
from pytest_mlebench.extras.engines.scratch import copied
from pytest_mlebench.io.processes import sigterm_interrupts
from pytest_mlebench.io.units import pluralize
from pytest_mlebench.options import Settings, from_plan, read
from pytest_mlebench.records.manifest import folder_digest
from pytest_mlebench.records.outcome import Ending
from pytest_mlebench.records.record import RunRecord
from pytest_mlebench.reports.progress import Lines
from pytest_mlebench.results import find_group, read_group
from pytest_mlebench.runs import run
from pytest_mlebench.sandbox.gpus import this_machine

_ID_VARIABLES = {"slurm": "SLURM_JOB_ID", "ray": "MLEBENCH_RAY_ACTOR"}
"""Environment variables with the job's id, for the engines that choose nodes and GPUs."""


def add(commands: Any) -> None:
    command = commands.add_parser(
        "run-one",
        help="do one run of a session with --cluster (engines call this)",
        description="Does the run that a plan describes, in the plan's run group. The exit status is 0 whenever the "
        "run has a record.",
    )
    command.add_argument("plan", metavar="PLAN", type=user_path, help="plan.json in the run's folder below .jobs")
    command.add_argument("--name", metavar="NAME", help="run it only if the plan still has this name")
    command.set_defaults(command=_run_one)

    command = commands.add_parser(
        "stop",
        help="end the waiting and running jobs of a run group",
        description="Ends the jobs that a session with --cluster left behind, for example with --detach. Their runs "
        "stay unfinished; `pytest --resume=GROUP` restarts them.",
    )
    command.add_argument("group", metavar="GROUP", help="a run group's folder, its name below --runs-dir, or `last`")
    add_options(command, "--runs-dir")
    command.set_defaults(command=_stop)


def _stop(options: argparse.Namespace) -> int:
    group = find_group(options.group, read_settings(options).runs_dir)
    if not (count := stop(group, engines())):
        read_group(group)  # refuses a folder that is not a run group
    logger.info("%s: %s", group, f"ended {pluralize(count, 'job')}" if count else "no job is waiting or running")
    return 0


def _run_one(options: argparse.Namespace) -> int:
    file: Path = options.plan.absolute()
    plan, group, folder = JobPlan.read(file), file.parents[2], file.parent
    if options.name not in (None, plan.name) or plan.name in plans.ended_names(group):
        logger.info("another job does this run, or the run has ended")
        return 0
    restarts = int(os.environ.get("SLURM_RESTART_COUNT") or 0) if plan.engine == "slurm" else 0
    with sigterm_interrupts(), plans.signal_alive(folder, plan.name, restarts=restarts):
        try:
            record = plans.record_by(group, plan.key, {plan.name, *plan.earlier})
            record = record or _do(replace(plan, attempt=plan.attempt + restarts), group)
        except MLEBenchError as error:
            if not plans.is_superseded(folder, plan.name) and plan.name not in plans.ended_names(group):
                plans.report_end(group, plan.name, JobEnd(error=f"on {socket.gethostname()}: {error}"))
            raise
        plans.report_end(group, plan.name, JobEnd(run_id=record.run_id))
    logger.info("%s: %s", record.run_id, record.outcome.label)
    return 0


def _do(plan: JobPlan, group: Path) -> RunRecord:
    """Do what a session's fixtures do, then run the agent. Raises MLEBenchError if the run cannot start."""
    if plan.keys_file:
        plans.load_keys(Path(plan.keys_file))
    bench = Bench(settings=_settings(plan, group), reporter=Lines(), workers=plan.workers)
    agent, file = _agent(plan, bench), Path(plan.competition_file)
    # If the session's path is not on this machine, the catalogue has the competition.
    competition = load(file, bench.settings.version) if file.exists() else bench.catalogue[plan.competition_id]
    dataset = _dataset(bench, competition, plan.seed)
    id, node = os.environ.get(_ID_VARIABLES.get(plan.engine, "")) or str(os.getpid()), socket.gethostname()
    interrupted = run.interrupted_runs(group, plan.key)
    job = plan.account(id=id, node=node, hardware=asdict(this_machine()), interrupted=interrupted)
    run_options = replace(
        bench.run_options(group, worker=f"{plan.engine} {id} on {node}", job=job),
        may_record=lambda: _check_not_replaced(plan, group),
    )
    if plan.attempt > plan.max_requeues:
        detail = f"its job was lost or preempted {plan.attempt} times"
        return run.record_lost(
            agent, competition, dataset, run_options, seed=plan.seed, ending=Ending.NOT_STARTED, detail=detail
        )
    sandbox, scratch = bench.ready_sandbox(agent), bench.settings.node_scratch
    with nullcontext(dataset) if scratch is None else copied(dataset, scratch, bench.reporter) as local:
        return run.run_agent(agent, competition, local, sandbox, run_options, seed=plan.seed)


def _check_not_replaced(plan: JobPlan, group: Path) -> None:
    """Raise ClusterError if another job has replaced this one, or an earlier job has recorded the run after all."""
    folder = plans.job_folder(group, plan.key)
    if plans.is_superseded(folder, plan.name):
        raise ClusterError("another job has replaced this one")
    if (record := plans.record_by(group, plan.key, plan.earlier)) is not None:
        plans.report_end(group, plan.name, JobEnd(run_id=record.run_id))
        raise ClusterError(f"an earlier job has recorded this run after all: {record.run_id}")


def _dataset(bench: Bench, competition: Competition, seed: int) -> Dataset:
    """The run's data, pulled from ``--data-source`` if it is missing here. Raises DataError."""
    store, options = bench.store_of(seed), bench.prepare_options
    if not store.is_usable(competition, **options):
        if store.source is None:
            raise DataError(store.not_prepared(competition))
        store.prepare(competition, reporter=bench.reporter, **options)
    return store.dataset(competition)


def _settings(plan: JobPlan, group: Path) -> Settings:
    if plan.version != __version__:
        raise UsageError(f"this node has pytest-mlebench {__version__}, the session {plan.version}")
    source = from_plan(plan.agent, plan.options, plans.job_folder(group, plan.key) / plans.PLAN)
    settings = read([source], runs_dir=group.parent)
    given = os.environ.get("CUDA_VISIBLE_DEVICES", "") if plan.engine in _ID_VARIABLES else ""
    if settings.gpus and given and not settings.gpu_ids:  # only the GPUs that the engine gave this job
        return replace(settings, gpu_ids=tuple(given.split(",")))
    return settings


def _agent(plan: JobPlan, bench: Bench) -> Agent:
    (agent,) = bench.chosen_agents
    if folder_digest(agent.folder) != plan.agent_digest:
        raise UsageError(f"{agent.folder} has changed since the run was submitted")
    bench.check_agent(agent)
    return agent
