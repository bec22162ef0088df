"""Probes show on version 2's synthetic data that version 1 of a competition has a defect that version 2 lacks.

Each probe is a function of one competition. ``attack`` creates a submission from information in the public files: it
earns gold in version 1, and no medal in version 2. ``groups`` returns the groups (patients, books) in the training
data and in the test set: in version 1, some are in both. ``graded`` creates a submission that the versions' graders
score differently. ``flaw`` describes the defect of the prepared files; in version 2, it returns an empty string.

Each names the corrections that it covers, by competition and line number in its ``changes``:
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
    """A submission and its grades in the two versions."""

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
    """``None`` means any score that differs from the other version's."""

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
    """Registers the probe for the lines of ``changes``; yields the competitions."""
    for correction in corrections:
        id, _, lines = correction.partition("/")
        for line in lines.split(","):
            PROBED.setdefault(id, {}).setdefault(int(line), []).append(probe.__name__)
        yield id


def answers(dataset: Dataset) -> pd.DataFrame:
    return pd.read_csv(dataset.answers)


def perfect(dataset: Dataset) -> pd.DataFrame:
    return pd.read_csv(dataset.perfect_submission)
