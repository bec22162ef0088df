"""What shows that a competition's first version is defective, and its second is not, on the second's synthetic data.

Each probe is a function of one competition. ``attack`` makes a submission from what the public files give away: it
earns gold in the first version, and no medal in the second. ``groups`` gives the groups (patients, books) in the
training data and in the test: in the first version some are in both. ``graded`` makes a submission of which the
versions' graders think otherwise. ``flaw`` says what is wrong with the prepared files: nothing in the second version.

Each names the corrections that it shows, by the competition and the number of the line in its ``changes``:
``champs-scalar-coupling/2``, or ``tweet-sentiment-extraction/1,2`` for two lines.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
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
PROBED: dict[str, dict[int, list[str]]] = {}
"""The names of the probes of each competition by the line of its ``changes``, counted from 1."""
Probe = TypeVar("Probe", bound=Callable[..., Any])


def attack(*corrections: str) -> Callable[[Probe], Probe]:
    return _added(ATTACKS, corrections)


def groups(*corrections: str) -> Callable[[Probe], Probe]:
    return _added(GROUPS, corrections)


def flaw(*corrections: str) -> Callable[[Probe], Probe]:
    return _added(FLAWS, corrections)


def graded(*corrections: str, was: Outcome | None, now: Outcome | None) -> Callable[[Probe], Probe]:
    """``None`` is any score but that of the other version."""

    def add(make: Probe) -> Probe:
        for id in _named(corrections, make):
            GRADED.setdefault(id, []).append(Graded(make, was, now))
        return make

    return add


def _added(registry: dict[str, list[Any]], corrections: Iterable[str]) -> Callable[[Probe], Probe]:
    def add(probe: Probe) -> Probe:
        for id in _named(corrections, probe):
            registry.setdefault(id, []).append(probe)
        return probe

    return add


def _named(corrections: Iterable[str], probe: Callable[..., Any]) -> Iterator[str]:
    """The competitions, after the probe has been noted for their lines."""
    for correction in corrections:
        id, _, lines = correction.partition("/")
        for line in lines.split(","):
            PROBED.setdefault(id, {}).setdefault(int(line), []).append(probe.__name__)
        yield id


def answers(dataset: Dataset) -> pd.DataFrame:
    return pd.read_csv(dataset.answers)


def perfect(dataset: Dataset) -> pd.DataFrame:
    return pd.read_csv(dataset.perfect_submission)
