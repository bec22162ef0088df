"""``mlebench export --to=harbor``: competitions as tasks of Harbor."""

from __future__ import annotations

import shlex
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_mlebench.bench import Bench
from pytest_mlebench.catalog import Competition
from pytest_mlebench.data.confined import is_third_party
from pytest_mlebench.data.dataset import OBFUSCATED, Dataset
from pytest_mlebench.errors import UsageError
from pytest_mlebench.extras.interop.contract import ExportOption, Request
from pytest_mlebench.extras.interop.harbor.task import TaskOptions, Written, is_public_data, write_task
from pytest_mlebench.grading.twin_medals import as_submission, read_sample
from pytest_mlebench.grading.twins import TwinStore, make_twin

if TYPE_CHECKING:
    import pandas as pd

SUMMARY = "competitions as task folders of Harbor, which runs them on Docker and on clouds"
_REWARDS = ("percentile", "medal", "milestones")
_REWARD, _PREFIX, _REAL = "--reward", "--image-prefix", "--include-real-data"
OPTIONS = (
    ExportOption(_REWARD, "NAME", f"reward of a submission: {', '.join(_REWARDS)} (default: {_REWARDS[0]})"),
    ExportOption(
        _PREFIX, "PREFIX", "name images PREFIX and the competition's id, and have Harbor pull instead of build them"
    ),
    ExportOption(_REAL, "", "copy real data and its answers into the tasks, instead of mounting them"),
)


def export_competitions(bench: Bench, competitions: Sequence[Competition], request: Request) -> Iterator[str]:
    """Write a task folder for each competition; yields a line for each, and what is left to do."""
    options = _options(bench, request)
    target = request.output or Path("harbor-tasks")
    if taken := [competition.id for competition in competitions if (target / competition.id).exists()]:
        raise UsageError(f"{target / taken[0]} exists already: remove it, or name another folder with --output")
    target.mkdir(parents=True, exist_ok=True)
    written = []
    for competition in competitions:
        dataset = bench.store.prepare(competition, reporter=bench.reporter, **bench.prepare_options)
        written.append(_export(target, dataset, bench, options))
        yield str(written[-1].folder)
    yield from _left_to_do(target, written)


def _options(bench: Bench, request: Request) -> TaskOptions:
    reward = request.options.get(_REWARD, _REWARDS[0])
    if reward not in _REWARDS:
        raise UsageError(f"{_REWARD}: {reward!r} is not one of {', '.join(_REWARDS)}")
    if bench.settings.description == OBFUSCATED:
        raise UsageError("--to=harbor does not support --description=obfuscated: a task's name is the competition's")
    return TaskOptions(
        settings=bench.settings,
        limits=bench.limits,
        reward=reward,
        image_prefix=request.options.get(_PREFIX, ""),
        include_real_data=_REAL in request.options,
    )


def _export(target: Path, dataset: Dataset, bench: Bench, options: TaskOptions) -> Written:
    """Write a task at once or not at all."""
    with tempfile.TemporaryDirectory(prefix=".task-", dir=target) as scratch:
        made = Path(scratch, dataset.competition.id)
        written = write_task(made, dataset, _solution(dataset, bench, Path(scratch, "twin")), options)
        folder = target / dataset.competition.id
        shutil.move(made, folder)
    return Written(folder=folder, mounted=written.mounted, images=written.images)


def _solution(dataset: Dataset, bench: Bench, scratch: Path) -> pd.DataFrame | Path | None:
    """A submission that earns a medal: of a twin what its maker could predict, elsewhere the answers if these are
    public. None for real data."""
    store = bench.store
    if isinstance(store, TwinStore):
        competition = bench.catalogue[dataset.competition.id]
        if is_third_party(competition):  # its code runs in a process of its own, which returns no tables
            return None
        seed = store.twins.world_seed(store.data_dir)
        made = make_twin(competition, scratch, seed, store.twins.size)
        ceiling = as_submission(made.predictions["ceiling"], read_sample(dataset))
        shutil.rmtree(scratch)
        return ceiling
    return dataset.perfect_submission if is_public_data(dataset) else None


def _left_to_do(target: Path, written: Sequence[Written]) -> Iterator[str]:
    images = {task.folder / part: image for task in written for part, image in task.images.items()}
    for folder, image in images.items():
        yield f"build and push: docker build -t {image} {shlex.quote(str(folder))} && docker push {image}"
    if mounted := [task.folder.name for task in written if task.mounted]:
        yield (
            f"real data is not part of {len(mounted)} tasks ({', '.join(mounted[:3])}"
            f"{', …' if mounted[3:] else ''}): set MLEBENCH_DATA_DIR to a folder on Harbor's machine that has it"
        )
    yield f"run: harbor run -p {shlex.quote(str(target))} -a oracle"
