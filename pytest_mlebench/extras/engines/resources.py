"""The resources that a session requests from an engine: the run's limits, and those for grading."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_mlebench import defaults
from pytest_mlebench.data.dataset import Dataset
from pytest_mlebench.errors import ClusterError
from pytest_mlebench.extras.engines.contract import Engine, Resources
from pytest_mlebench.io.units import format_duration, format_size, pluralize
from pytest_mlebench.options import Settings

HARNESS_MEMORY = 1 << 30
"""Memory for the harness, in addition to the agent's limit."""
_GRADER_BYTES = 1 << 30
"""Memory of a grader with its libraries and a small table."""
_TABLE_FACTOR = 20
"""Memory of a table, with the copies that graders create, per byte of its CSV file."""
_ROW_BYTES = 500
"""Estimated bytes of a row in the answers and the sample submission, while the files do not exist."""
_MIN_MARGIN_SECONDS = 1800.0
"""Margin of a short run's job."""


def job_resources(settings: Settings, dataset: Dataset) -> Resources:
    """Return the resources of the job for a run on this dataset.

    ``seconds`` covers startup, the run, and grading its submission and snapshots. ``memory`` is the larger of the
    agent's limit and the memory for grading (None without ``--memory``).
    """
    limit = settings.time_limit
    margin = min(defaults.JOB_MARGIN_SECONDS, max(_MIN_MARGIN_SECONDS, limit / 4))
    seconds = limit + settings.grading_time + min(defaults.TIMELINE_SECONDS, limit) + margin
    memory = None if settings.memory is None else max(settings.memory, grading_memory(settings, dataset))
    return Resources(seconds=seconds, cpus=settings.cpus, memory=memory, gpus=settings.gpus)


def grading_memory(settings: Settings, dataset: Dataset) -> int:
    """Bytes for grading: ``--grading-memory``, or less if that option has its default and the answers are small."""
    size = _answer_bytes(dataset)
    if settings.grading_memory != defaults.GRADING_MEMORY or size is None:
        return settings.grading_memory
    return min(settings.grading_memory, _GRADER_BYTES + _TABLE_FACTOR * size)


def is_known(settings: Settings, dataset: Dataset) -> bool:
    """Whether ``job_resources`` are final, even if the data is not prepared yet."""
    return settings.nodes_pull or _answer_bytes(dataset) is not None


def _answer_bytes(dataset: Dataset) -> int | None:
    """Bytes of the answers and the sample submission, estimated if they are missing; None if their size is unknown."""
    try:
        return sum(path.stat().st_size for path in {dataset.answers, dataset.sample_submission})
    except OSError:
        rows = dataset.competition.answers_rows
        return None if rows is None else rows * _ROW_BYTES


def request_text(engine: str, settings: Settings, asked: Sequence[Resources]) -> str:
    """Describe the resources that a session's jobs request, and the options that determine them."""
    longest = max(one.seconds for one in asked)
    parts = [
        f"{format_duration(longest)} (--time-limit={format_duration(settings.time_limit)} plus grading and a margin)"
    ]
    memories = sorted({one.memory for one in asked if one.memory is not None})
    if memories and settings.memory is not None:
        span = " to ".join(dict.fromkeys(map(format_size, (memories[0], memories[-1]))))
        why = "" if memories[-1] == settings.memory else " or what grading the competition takes"
        parts.append(f"{span} of memory (--memory={format_size(settings.memory)}{why}) plus 1 GiB for the harness")
    if settings.cpus is not None:
        parts.append(f"{settings.cpus:g} processor{'' if settings.cpus == 1 else 's'} (--cpus)")
    if settings.gpus:
        parts.append(f"{pluralize(settings.gpus, 'GPU')} (--gpus)")
    return f"each job asks {engine} for {', '.join(parts)}"


def check_largest(engine: Engine, settings: Settings, asked: Sequence[Resources]) -> None:
    """Check that the engine can ever start the largest job. Raises ClusterError with the requested resources."""
    seconds = max(one.seconds for one in asked)
    memory = max((one.memory for one in asked if one.memory is not None), default=None)
    largest = Resources(seconds=seconds, cpus=settings.cpus, memory=memory, gpus=settings.gpus)
    try:
        engine.check_resources(largest)
    except ClusterError as error:
        raise ClusterError(f"{error}; {request_text(engine.name, settings, asked)}. Request less") from error
