"""``mlebench export --to=harbor``: exports competitions as Harbor tasks."""

from __future__ import annotations

import secrets
import shlex
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from pytest_mlebench.bench import Bench
from pytest_mlebench.catalog import Competition
from pytest_mlebench.data.dataset import Dataset
from pytest_mlebench.data.preparing import open_source
from pytest_mlebench.errors import DataError, UsageError
from pytest_mlebench.extras.interop.contract import ExportOption, Request
from pytest_mlebench.extras.interop.harbor.data import SCHEMES, TaskData
from pytest_mlebench.extras.interop.harbor.job import opened
from pytest_mlebench.extras.interop.harbor.task import HarborTask, TaskOptions, is_public_data, write_task
from pytest_mlebench.grading.twins import SOLUTION, TwinStore, make_twin
from pytest_mlebench.io.units import pluralize

SUMMARY = "competitions as task folders for Harbor, which runs them on Docker and in clouds"
_REWARDS = ("percentile", "medal", "milestones")
_REWARD, _PREFIX, _REAL = "--reward", "--image-prefix", "--include-real-data"
OPTIONS = (
    ExportOption(_REWARD, "NAME", f"reward of a submission: {', '.join(_REWARDS)} (default: {_REWARDS[0]})"),
    ExportOption(
        _PREFIX, "PREFIX", "name images PREFIX plus the competition's id, for Harbor to pull instead of build"
    ),
    ExportOption(
        _REAL, "", "copy real data and its answers into the tasks, instead of mounting or pulling it at run time"
    ),
)


def export_competitions(bench: Bench, competitions: Sequence[Competition], request: Request) -> Iterator[str]:
    """Write a task folder for each competition; yields a line for each, and the remaining steps."""
    options = _options(bench, request)
    target = request.output or Path("harbor-tasks")
    names = [_name(competition, options) for competition in competitions]
    if taken := [name for name in names if (target / name).exists()]:
        raise UsageError(f"{target / taken[0]} exists already: remove it, or name another folder with --output")
    target.mkdir(parents=True, exist_ok=True)
    written = []
    for name, competition in zip(names, competitions, strict=True):
        with tempfile.TemporaryDirectory(prefix=".task-", dir=target) as scratch:
            task = _task(name, competition, bench, options, Path(scratch))
            write_task(Path(scratch, "made"), task, _solution(task.dataset, bench, Path(scratch, "twin")))
            shutil.move(Path(scratch, "made"), target / name)  # atomically
        written.append(task)
        yield f"{target / name}" + (f": {competition.id}" if options.is_obfuscated else "")
    yield from _remaining_steps(target, written)


def _options(bench: Bench, request: Request) -> TaskOptions:
    reward = request.options.get(_REWARD, _REWARDS[0])
    if reward not in _REWARDS:
        raise UsageError(f"{_REWARD}: {reward!r} is not one of {', '.join(_REWARDS)}")
    return TaskOptions(
        settings=bench.settings,
        limits=bench.limits,
        reward=reward,
        image_prefix=request.options.get(_PREFIX, ""),
        include_real_data=_REAL in request.options,
    )


def _name(competition: Competition, options: TaskOptions) -> str:
    """The name of the task: the competition's id, or a random name if the competition is obfuscated."""
    if not options.is_obfuscated:
        return competition.id
    _ = competition.obfuscated_description  # fails before anything is written
    return f"competition-{secrets.token_hex(4)}"


def _task(name: str, competition: Competition, bench: Bench, options: TaskOptions, scratch: Path) -> HarborTask:
    """The task with its data: prepared here, or only its description if the task pulls the data."""
    url = bench.settings.data_source
    if url is not None and not (
        bench.settings.has_twins or options.include_real_data or competition.source == "bundled"
    ):
        return _pulling_task(name, competition, bench, options, scratch / "pulled")
    dataset = bench.store.prepare(competition, reporter=bench.reporter, **bench.prepare_options)
    task = HarborTask(name=name, dataset=dataset, options=options)
    if options.is_obfuscated and not task.is_copied:
        raise UsageError(
            f"{competition.id}: --description=obfuscated cannot mount real data, as agents could read its path: add "
            "--data-source or --include-real-data"
        )
    return task


def _pulling_task(name: str, competition: Competition, bench: Bench, options: TaskOptions, work: Path) -> HarborTask:
    assert bench.settings.data_source is not None
    source = open_source(bench.settings.data_source)
    if source.url.partition("://")[0] not in SCHEMES:
        raise UsageError(
            f"--data-source={source.url}: the containers of a task cannot reach it; use {', '.join(SCHEMES)}, or leave "
            "it out to mount the data"
        )
    head = source.head(competition, bench.reporter)
    source.pull(competition, head, work, bench.reporter, ["public/description.md"])
    dataset = Dataset(competition, work)
    if not (dataset.public / "description.md").is_file():
        raise DataError(f"{competition.id}: {source.url} has no description for it")
    dataset.note(description=head.description)
    pulled = TaskData(url=source.url, digest=head.digest, size=head.size)
    return HarborTask(name=name, dataset=dataset, options=options, source=pulled)


def _solution(dataset: Dataset, bench: Bench, scratch: Path) -> Path | None:
    """A submission that earns a medal: a twin's reference solution, or else the answers if they are public. None for
    real data."""
    store = bench.store
    if not isinstance(store, TwinStore):
        return dataset.perfect_submission if is_public_data(dataset) else None
    competition, limit = bench.catalogue[dataset.competition.id], bench.settings.max_submission_size
    make_twin(competition, scratch, store.twins.world_seed(store.data_dir), store.twins.size, solution=True)
    copy = scratch.with_name(SOLUTION)
    with opened(scratch / SOLUTION, scratch, limit) as file:  # third-party code may have written it
        if file is None:
            raise DataError(f"{competition.id}: its twin has no reference solution that can be read")
        with copy.open("wb") as target:
            shutil.copyfileobj(file, target)
    return copy


def _remaining_steps(target: Path, written: Sequence[HarborTask]) -> Iterator[str]:
    for task in written:
        for part, image in task.images.items():
            folder = shlex.quote(str(target / task.name / part))
            yield f"build and push: docker build -t {image} {folder} && docker push {image}"
    if mounted := [task.name for task in written if not task.is_copied and task.source is None]:
        yield (
            f"real data is not part of {_some(mounted)}: set MLEBENCH_DATA_DIR to a folder on Harbor's machine that "
            "has it"
        )
    if pulled := {task.name: task.source.url for task in written if task.source is not None}:
        yield (
            f"real data is not part of {_some([*pulled])}: containers pull it from {', '.join({*pulled.values()})}, "
            "with the credentials in Harbor's environment"
        )
    yield f"run: harbor run -p {shlex.quote(str(target))} -a oracle"


def _some(names: Sequence[str]) -> str:
    return f"{pluralize(len(names), 'task')} ({', '.join(names[:3])}{', …' if names[3:] else ''})"
