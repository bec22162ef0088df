"""Options of episodes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pytest_mlebench.bench import Bench
from pytest_mlebench.data.preparing import SIZES
from pytest_mlebench.errors import UsageError, quoted
from pytest_mlebench.grading.rewards import REWARDS, Reward
from pytest_mlebench.io.units import MAX_SECONDS
from pytest_mlebench.options import from_python


@dataclass(frozen=True, kw_only=True)
class EpisodeOptions:
    """Options of a competition's episodes. Times are in seconds, and ``output_bytes`` limits each step's output.

    A sandbox that takes longer than ``answer_timeout`` after a step's timeout, or to end, is considered broken.
    """

    data: str = "twin"
    size: str = "micro"
    world: int = 0
    """Mixed into the seeds of twins. Anyone who knows it and a seed can generate the answers: keep it secret if
    commands may come from an adversary."""
    reward: Reward | str = "milestones"
    time_limit: float = 3600.0
    step_timeout: float = 300.0
    output_bytes: int = 16_384
    answer_timeout: float = 30.0

    def __post_init__(self) -> None:
        choices: Mapping[str, Collection[str]] = {"data": ("twin", "real"), "size": SIZES, "reward": REWARDS}
        for name, known in choices.items():
            value = getattr(self, name)
            if value not in list(known) and not (name == "reward" and callable(value)):
                raise UsageError(f"{name}: {value!r} is not one of {', '.join(known)}")
        check_count("world", self.world, 0)
        check_count("output_bytes", self.output_bytes, 1)
        for name in ("time_limit", "step_timeout", "answer_timeout"):
            check_seconds(name, getattr(self, name))


def check_count(name: str, value: object, minimum: int) -> None:
    """Raise UsageError unless this is a whole number of at least ``minimum``, and at most 300 digits."""
    if isinstance(value, bool) or not isinstance(value, int) or not minimum <= value < 10**300:
        raise UsageError(f"{name}: {quoted(value)} is not a whole number of at least {minimum}, and at most 300 digits")


def check_seconds(name: str, value: object) -> None:
    """Raise UsageError unless this is a valid time limit."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= MAX_SECONDS:
        raise UsageError(f"{name}: {quoted(value)} is not a positive number of seconds, of at most a hundred years")


def with_options(bench: Bench, options: Mapping[str, Any]) -> tuple[Bench, EpisodeOptions]:
    """Return a bench with those options that are not for episodes, and the options for episodes. Raises UsageError."""
    for_episodes = {name: value for name, value in options.items() if name in EpisodeOptions.__dataclass_fields__}
    others = {name: value for name, value in options.items() if name not in for_episodes}
    if unknown := [name for name in sorted(others) if not hasattr(bench.settings, name)]:
        known = ", ".join(EpisodeOptions.__dataclass_fields__)
        raise UsageError(f"episode has no option {', '.join(unknown)}; it has {known}, and those of Bench")
    if others:  # not with_settings: containers that were opened with other options must not be used
        changed = from_python(others)
        settings = replace(bench.settings, **{name: getattr(changed, name) for name in others})
        bench = Bench(settings=settings, reporter=bench.reporter, workers=bench.workers)
    return bench, EpisodeOptions(**for_episodes)
