"""What models know of competitions, as ``mlebench familiarity`` measured it in a run group."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pytest_mlebench.io.json_files import read_json

MEASURED, _MAX_FILES = "familiarity-*.json", 20


@dataclass(frozen=True)
class Knowledge:
    """How familiar a model is with a competition: the mean over ``texts``, each with its positions and mean."""

    competition_id: str
    familiarity: float
    texts: Mapping[str, tuple[int, float]]


@dataclass(frozen=True)
class Correlation:
    """Pearson's r between familiarity and normalised score over competitions, with its 95 % interval (Fisher's z)."""

    agent: str
    competitions: int
    r: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class _Known:
    """A competition as ``to_json`` has it."""

    competition_id: str
    familiarity: float
    scores: Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What ``mlebench familiarity`` found with one model, as a group keeps it.

    Of ``own_descriptions`` competitions the model read our own words, which no model was trained on; None where that
    was not noted.
    """

    model: str
    correlations: tuple[Correlation, ...]
    competitions: tuple[_Known, ...]
    own_descriptions: int | None = None

    @property
    def knowledge(self) -> list[Knowledge]:
        """How familiar the model is with each competition."""
        return [Knowledge(own.competition_id, own.familiarity, {}) for own in self.competitions]


def measured(group_dir: Path) -> list[Measured]:
    """What was measured of a group, by model. Raises OSError, or ValueError."""
    return [read_json(path, Measured) for path in sorted(group_dir.glob(MEASURED))[:_MAX_FILES]]


def in_words(one: Correlation) -> str:
    """A correlation with its interval, for example ``r = 0.31 [-0.05, 0.60], 22 competitions``."""
    return f"r = {one.r:.2f} [{one.low:.2f}, {one.high:.2f}], {one.competitions} competitions"
