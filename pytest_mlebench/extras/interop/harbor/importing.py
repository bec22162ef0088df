"""``mlebench import``: converts a Harbor job to a run group, and grades it again."""

from __future__ import annotations

import argparse
import logging
import shutil
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_mlebench._version import __version__
from pytest_mlebench.bench import Bench
from pytest_mlebench.catalog.competition import FIRST
from pytest_mlebench.cli.common import add_options, read_bench, user_path
from pytest_mlebench.data.dataset import DESCRIPTIONS, OBFUSCATED, Dataset
from pytest_mlebench.data.preparing import REAL, parse_choice
from pytest_mlebench.errors import UsageError, reason, unusable
from pytest_mlebench.extras.interop.facts import cleaner
from pytest_mlebench.extras.interop.harbor import job as jobs
from pytest_mlebench.extras.interop.harbor.job import JobError, Trial
from pytest_mlebench.extras.interop.harbor.verify import BEATS_SAMPLE, rewards
from pytest_mlebench.grading.grader import Grader
from pytest_mlebench.grading.rewards import REWARDS
from pytest_mlebench.io.units import pluralize
from pytest_mlebench.io.values import as_count, as_number, as_object, loads, write_json
from pytest_mlebench.llm.trajectory import TRAJECTORY
from pytest_mlebench.records.group import write_group
from pytest_mlebench.records.manifest import UNKNOWN, Manifest, PlannedRun
from pytest_mlebench.records.outcome import Report, SandboxAccount
from pytest_mlebench.records.record import RUN_LOG, SUBMISSION, RunKey, RunRecord, bounded
from pytest_mlebench.reports.progress import Lines
from pytest_mlebench.reports.run_details import steps_of
from pytest_mlebench.runs.guard import protect
from pytest_mlebench.runs.run import about_data, graded
from pytest_mlebench.runs.writer import about_competition, check_group_name

logger = logging.getLogger("pytest_mlebench")

_LOG_BYTES, _LOGS_BYTES = 8 << 20, 32 << 20
"""Maximum bytes of each log of a trial, and of all of them."""
_MAX_COST = 1e15
"""In dollars, as in a record."""


def add(commands: Any) -> None:
    command = commands.add_parser("import", help="create a run group from a Harbor job on exported competitions")
    command.add_argument("job", type=user_path, metavar="JOB", help="folder of a job, like jobs/2026-01-31__12-00-00")
    command.add_argument(
        "-o", "--output", type=user_path, metavar="DIR", help="folder of the run group (default: below --runs-dir)"
    )
    add_options(command, "--runs-dir", "--competitions-dir", "--bench-version", "--data", "--data-dir",
        "--data-source", "--max-submission-size", "--grading-memory", "--grading-time")  # fmt: skip
    command.set_defaults(command=_import)


def _import(options: argparse.Namespace) -> int:
    bench = read_bench(options, Lines())
    job: Path = options.job
    trials, unfinished = _read(job)
    bench = _as_exported(bench, trials)
    folder = options.output or bench.settings.runs_dir / job.resolve().name
    try:
        check_group_name(folder.absolute().name)
        folder.mkdir(parents=True)
    except UsageError as error:
        raise UsageError(f"{error} with --output") from error
    except FileExistsError as error:
        raise UsageError(f"{folder} exists already: name another folder with --output") from error
    except OSError as error:
        raise UsageError(f"{folder} cannot be written: {unusable(error)}") from error
    try:
        records = _write(folder, job, bench, trials)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    left_out = f", {pluralize(unfinished, 'trial')} without a result left out" if unfinished else ""
    print(f"{folder}: {pluralize(len(records), 'run')}{left_out}")
    return 0


def _read(job: Path) -> tuple[list[Trial], int]:
    """The finished trials by start, and the number of unfinished ones. Raises UsageError if none can be read."""
    trials, unfinished = [], 0
    for folder in jobs.trial_folders(job):
        try:
            trial = jobs.read_trial(folder)
        except JobError as error:
            logger.warning("warning: %s", error)
            continue
        if trial is None:
            unfinished += 1
        else:
            trials.append(trial)
    if not trials:
        raise UsageError(f"{job} has no finished trial of an exported competition")
    return sorted(trials, key=lambda trial: (trial.started_at, trial.folder.name)), unfinished


def _as_exported(bench: Bench, trials: Sequence[Trial]) -> Bench:
    """A bench with the version, data and descriptions of the exported tasks."""
    versions = {jobs.text(str(trial.task.get("bench_version", bench.settings.version))) for trial in trials}
    choices = {jobs.text(str(trial.task.get("data", bench.settings.data))) for trial in trials}
    hidden = {trial.task.get("description") == OBFUSCATED for trial in trials}
    if len(versions) > 1 or len(choices) > 1 or len(hidden) > 1:
        found = ", ".join(sorted(versions | choices | ({OBFUSCATED} if hidden == {True, False} else set())))
        raise UsageError(f"the trials differ in version, data or description ({found}): a group has one of each")
    (version,), (choice,) = versions, choices
    if version not in ("v1", "v2"):
        raise UsageError(f"the trials have version {version!r} of the benchmark, which is not supported")
    try:
        choice = parse_choice(choice)
    except ValueError as error:
        raise UsageError(f"the trials name data that is not supported: {error}") from error
    if REAL not in (bench.settings.data, choice):  # the user's option has the seed
        choice = bench.settings.data
    description = OBFUSCATED if hidden == {True} else bench.settings.description
    return bench.with_settings(bench_version=version.removeprefix("v"), data=choice, description=description)


def _write(folder: Path, job: Path, bench: Bench, trials: Sequence[Trial]) -> list[RunRecord]:
    protect(folder)
    harbor = _harbor(job)
    graders: dict[str, Grader] = {}
    attempts: dict[tuple[str, str], int] = defaultdict(int)
    records: list[RunRecord] = []
    for trial in trials:
        if trial.competition_id not in bench.catalogue:
            logger.warning("warning: %s: there is no competition %s here", trial.folder, trial.competition_id)
            continue
        competition = bench.catalogue[trial.competition_id]
        dataset = bench.store.prepare(competition, reporter=bench.reporter, **bench.prepare_options)
        if trial.competition_id not in graders:
            graders[trial.competition_id] = Grader(dataset.competition, dataset, **bench.grading_options)
        key = RunKey(trial.agent, trial.competition_id, attempts[trial.agent, trial.competition_id])
        attempts[trial.agent, trial.competition_id] += 1
        run_dir = folder / f"{key.run_prefix}{len(records)}-{trial.folder.name.rpartition('__')[2][:20]}"
        run_dir.mkdir()
        records.append(_record(run_dir, trial, key, dataset, graders[trial.competition_id], harbor))
    if not records:
        raise UsageError(f"{job}: none of its competitions is known: name their folder with --competitions-dir")
    _manifest(folder, records, bench, harbor).write(folder)
    write_group(folder, records[0].started_at, records)
    return records


def _harbor(job: Path) -> dict[str, str]:
    """The program that ran the job: Harbor with its version, if that was recorded."""
    try:
        lock = jobs.read_object(job / "lock.json", job) or {}
    except JobError:
        lock = {}
    version = jobs.text(as_object(lock.get("harbor")).get("version"))
    return {"name": "harbor", "version": version[:100] or UNKNOWN}


def _record(
    run_dir: Path, trial: Trial, key: RunKey, dataset: Dataset, grader: Grader, harbor: Mapping[str, str]
) -> RunRecord:
    notes = [f"run by Harbor {harbor['version']} ({trial.environment or 'unknown environment'}): {trial.folder.name}"]
    notes += _copy_files(trial, run_dir, grader.max_bytes)
    report = graded(grader, run_dir)
    notes += _disagreements(trial, report, grader, dataset)
    description = trial.task.get("description")
    record = RunRecord(
        run_id=run_dir.name,
        run_group=run_dir.parent.name,
        **about_data(dataset.competition, dataset),
        agent=key.agent,
        seed=key.seed,
        started_at=trial.started_at.isoformat(),
        ended_at=trial.ended_at.isoformat(),
        ending=trial.ending,
        seconds=round(trial.seconds, 3),
        detail=cleaner().text(trial.detail),
        report=report,
        error=None if trial.error is None else cleaner().text(trial.error),
        versions={"pytest-mlebench": __version__, "harbor": harbor["version"]},
        sandbox=SandboxAccount(notes=tuple(notes)),  # the agent's confinement is unknown
        confinement={"grader": grader.confinement},
        llm=_llm(trial, run_dir),
        agent_definition={"id": key.agent, "harbor": dict(trial.harbor_agent)},
        description=description if description in (*DESCRIPTIONS, OBFUSCATED) else None,
        job={"engine": "harbor", "trial": trial.folder.name},
    )
    record = bounded(record)
    record.write(run_dir)
    return record


def _copy_files(trial: Trial, run_dir: Path, max_bytes: int) -> Iterator[str]:
    """Copy a trial's submission, trajectory and logs; yields the reason if one is left out.

    Masks the secrets of this environment, which the job's agents may have had.
    """
    masked = cleaner()
    try:
        with jobs.opened(trial.submission, trial.folder, max_bytes) as file:
            if file is not None:
                (run_dir / SUBMISSION).parent.mkdir()
                with (run_dir / SUBMISSION).open("wb") as copy:
                    shutil.copyfileobj(file, copy)
    except JobError as error:
        yield str(error)
    try:
        found = jobs.read_bytes(trial.folder / "agent" / TRAJECTORY, trial.folder, jobs.MAX_TRAJECTORY)
        trajectory = None if found is None else loads(masked.bytes(found))
        if isinstance(trajectory, dict) and str(trajectory.get("schema_version", "")).startswith("ATIF-"):
            write_json(run_dir / TRAJECTORY, trajectory)
        elif found is not None:
            yield "no trajectory: it is not in ATIF"
    except ValueError as error:
        yield f"no trajectory: {reason(error)}"
    with (run_dir / RUN_LOG).open("wb") as log:
        for path in jobs.logs(trial):
            if log.tell() >= _LOGS_BYTES:
                yield f"the log is incomplete: of a trial's logs, {_LOGS_BYTES >> 20} MiB are read"
                break
            try:
                text = jobs.read_bytes(path, trial.folder, _LOG_BYTES)
            except JobError as error:
                text = f"({error})".encode()
            if text:
                log.write(f"==> {path.name}\n".encode("utf-8", "backslashreplace") + masked.bytes(text) + b"\n")


def _disagreements(trial: Trial, report: Report, grader: Grader, dataset: Dataset) -> Iterator[str]:
    """The differences between the job's grades and ours."""
    name = str(trial.task.get("reward"))
    if not trial.rewards or name not in REWARDS:
        return
    sample = None
    if name == BEATS_SAMPLE:
        sample = grader.report(dataset.sample_submission, certainty=False).score
    ours = rewards(report, name, sample)
    differ = [
        f"{key} {trial.rewards[key]:g}, here {value:g}"
        for key, value in ours.items()
        if key in trial.rewards and trial.rewards[key] != value
    ]
    if trial.graded and trial.score != report.score:
        differ.append(f"score {trial.score}, here {report.score}")
    if differ:
        text = f"Harbor's grade differs: {'; '.join(differ)}"
        logger.warning("warning: %s: %s", trial.folder.name, text)
        yield text


def _llm(trial: Trial, run_dir: Path) -> dict[str, Any]:
    """The agent's report about its models. The calls did not go through our gateway, so nothing was checked."""
    usage = trial.usage
    tokens = {
        name: count
        for name, key in (("input", "n_input_tokens"), ("cached", "n_cache_tokens"), ("output", "n_output_tokens"))
        if (count := as_count(usage.get(key))) is not None
    }
    known = as_number(usage.get("cost_usd"))
    if known is not None and not 0 <= known <= _MAX_COST:
        known = None
    calls = _calls(run_dir)
    model = trial.harbor_agent.get("model")
    if not tokens and known is None and not calls and not model:
        return {}
    return {
        "gateway": "off",
        **({"calls": calls} if calls else {}),
        **({"tokens": tokens} if tokens else {}),
        "cost": known,
        "known_cost": known or 0.0,
        "models": {model: {"calls": calls}} if model and calls else {},
    }


def _calls(run_dir: Path) -> int:
    """The number of model calls in the trajectory: the steps that have metrics."""
    try:
        found = jobs.read_object(run_dir / TRAJECTORY, run_dir, jobs.MAX_TRAJECTORY) or {}
    except JobError:
        return 0
    return sum(bool(step.get("metrics")) for step in steps_of(found))


def _manifest(folder: Path, records: Sequence[RunRecord], bench: Bench, harbor: Mapping[str, str]) -> Manifest:
    """The manifest of the group. It has no session, since the machines of the runs were not recorded."""
    settings = bench.settings
    twins = {record.competition_id: bool(record.twin) for record in records}
    manifest = Manifest(
        run_group=folder.name,
        created_at=records[0].started_at,
        settings={
            "version": __version__,
            "run_by": dict(harbor),
            **({} if settings.version == FIRST else {"bench_version": settings.version}),
            **({"data": settings.data} if settings.has_twins else {}),
            **({"description": OBFUSCATED} if settings.description == OBFUSCATED else {}),
            "agents": {record.agent: {**record.agent_definition, "sandbox": UNKNOWN} for record in records},
            "competitions": {
                id: about_competition(bench.catalogue[id].folder, settings.version, is_twin=twins[id])
                for id in sorted(twins)
            },
        },
        runs=tuple(PlannedRun(*record.key) for record in records),
    )
    return manifest.with_records(records)
