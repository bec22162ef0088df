"""What shows that a competition's first version is defective, and its second is not, on the second's synthetic data.

Each probe is a function of one competition. ``attack`` makes a submission from what the public files give away: it
earns gold in the first version, and no medal in the second. ``groups`` gives the groups (patients, books) in the
training data and in the test: in the first version some are in both. ``graded`` makes a submission of which the
versions' graders think otherwise. ``flaw`` says what is wrong with the prepared files: nothing in the second version.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd

from pytest_mlebench.data.dataset import Dataset

Submission = pd.DataFrame | str
Groups = tuple[Collection[Any], Collection[Any]]
REFUSED, NO_SCORE = "refused", "no score"
Outcome = float | str
"""A score, or one of these words."""


@dataclass(frozen=True)
class Graded:
    """A submission, and what the two versions' graders make of it."""

    make: Callable[[Dataset], Submission]
    was: Outcome | None
    now: Outcome | None

    @property
    def name(self) -> str:
        return getattr(self.make, "__name__", "submission")


ATTACKS: dict[str, list[Callable[[Path], Submission]]] = {}
GROUPS: dict[str, list[Callable[[Dataset], Groups]]] = {}
GRADED: dict[str, list[Graded]] = {}
FLAWS: dict[str, list[Callable[[Dataset], str]]] = {}
Probe = TypeVar("Probe", bound=Callable[..., Any])


def attack(*ids: str) -> Callable[[Probe], Probe]:
    return _added(ATTACKS, ids)


def groups(*ids: str) -> Callable[[Probe], Probe]:
    return _added(GROUPS, ids)


def flaw(*ids: str) -> Callable[[Probe], Probe]:
    return _added(FLAWS, ids)


def graded(*ids: str, was: Outcome | None, now: Outcome | None) -> Callable[[Probe], Probe]:
    """``None`` is any score but that of the other version."""

    def add(make: Probe) -> Probe:
        for id in ids:
            GRADED.setdefault(id, []).append(Graded(make, was, now))
        return make

    return add


def _added(registry: dict[str, list[Any]], ids: Iterable[str]) -> Callable[[Probe], Probe]:
    def add(probe: Probe) -> Probe:
        for id in ids:
            registry.setdefault(id, []).append(probe)
        return probe

    return add


def probed() -> set[str]:
    """The competitions that have a probe."""
    return {*ATTACKS, *GROUPS, *GRADED, *FLAWS}


def answers(dataset: Dataset) -> pd.DataFrame:
    return pd.read_csv(dataset.answers)


def perfect(dataset: Dataset) -> pd.DataFrame:
    return pd.read_csv(dataset.perfect_submission)
