"""A run's record: everything that is known of one run of an agent, kept in ``run.json``."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple

from pytest_mlebench.data.durable import write_text
from pytest_mlebench.grading.report import Report
from pytest_mlebench.sandbox.base import Ending

RECORD = "run.json"
METADATA = "metadata.json"
GRADING_REPORT = "grading_report.json"
REPORT = "report.html"
_TEXTS = ("run_id", "competition_id", "split", "category", "agent", "started_at")
_KINDS: dict[str, type] = dict.fromkeys(_TEXTS, str) | {"seed": int}
"""Types of the values that runs are told apart and sorted by, so that a damaged record is noticed as it is read."""


class RunKey(NamedTuple):
    """What a run is of: a group holds one run for each key."""

    agent: str
    competition_id: str
    seed: int


@dataclass(frozen=True, kw_only=True)
class RunRecord:
    """One run: agent × competition × seed, how it ended, and what its submission is worth.

    Times are ISO 8601 in UTC, durations in seconds. ``error`` is the harness's trouble, if it was that.
    ``description`` says whose task description the agent read: ours (``bundled``), Kaggle's own pages (``kaggle``), or
    None where the data came with one from elsewhere.
    """

    run_id: str
    run_group: str
    competition_id: str
    split: str
    category: str
    agent: str
    seed: int
    started_at: str
    ended_at: str
    ending: str
    seconds: float
    detail: str = ""
    exit_code: int | None = None
    signal: str | None = None
    report: Report
    error: str | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    limits: Mapping[str, Any] = field(default_factory=dict)
    sandbox: Mapping[str, Any] = field(default_factory=dict)
    agent_definition: Mapping[str, Any] = field(default_factory=dict)
    data_verified: bool | None = None
    data: Mapping[str, str] = field(default_factory=dict)
    """Digests of the prepared data (see ``data.verification.fingerprint``)."""
    description: str | None = None
    """Whose description the agent read: ``bundled`` or ``kaggle``; None where it is not known."""

    @property
    def key(self) -> RunKey:
        return RunKey(self.agent, self.competition_id, self.seed)

    @property
    def score(self) -> float | None:
        return self.report.score

    @property
    def outcome(self) -> str:
        """What the run came to, in one word of the field (see ``OUTCOMES``)."""
        if self.error is not None:
            return "error"
        report = self.report
        if report.valid_submission:
            return report.medal or ("above_median" if report.above_median else "no_medal")
        if report.submission_exists:
            return "invalid_submission"
        endings = {Ending.TIMED_OUT: "timed_out", Ending.OUT_OF_MEMORY: "out_of_memory", Ending.CRASHED: "crashed"}
        return endings.get(Ending(self.ending), "no_submission")

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "report": self.report.to_json(), "outcome": self.outcome}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> RunRecord:
        """The reverse of ``to_json``; keys that a later version has added are ignored.

        Raises KeyError, TypeError or ValueError for what is no record.
        """
        kept = _known(cls, values)
        record = cls(**{**kept, "report": Report(**_known(Report, kept["report"]))})
        for name, kind in _KINDS.items():
            if not isinstance(value := getattr(record, name), kind):
                raise TypeError(f"{name} is {value!r}, must be {kind.__name__}")
        Ending(record.ending)
        return record

    def write(self, run_dir: Path) -> None:
        """Write ``run.json``, at once or not at all."""
        write_json(run_dir / RECORD, self.to_json())


def _known(cls: type[Any], values: Any) -> dict[str, Any]:
    if not isinstance(values, Mapping):
        raise TypeError(f"{cls.__name__} must be a JSON object, not {type(values).__name__}")
    names = {field.name for field in fields(cls)}
    return {key: value for key, value in values.items() if key in names}


OUTCOMES = (
    "gold",
    "silver",
    "bronze",
    "above_median",
    "no_medal",
    "invalid_submission",
    "no_submission",
    "timed_out",
    "out_of_memory",
    "crashed",
    "error",
)
"""Every outcome of a run, the best first."""


def read_records(group_dir: Path, *, on_broken: Callable[[str], None] = lambda reason: None) -> list[RunRecord]:
    """The records of all finished runs of a group, by start. Of a run that was done again the last record counts.

    What should be a record and is none is left out; ``on_broken`` is told which file that is, and why.
    """
    ordered = sorted(_records(group_dir, on_broken), key=lambda record: (record.started_at, record.run_id))
    latest = {record.key: record for record in ordered}
    return [record for record in ordered if latest[record.key] is record]


def _records(group_dir: Path, on_broken: Callable[[str], None]) -> Iterator[RunRecord]:
    for path in sorted(group_dir.glob(f"*/{RECORD}")):
        try:
            yield RunRecord.from_json(json.loads(path.read_text(encoding="utf-8")))
        except KeyError as error:
            on_broken(f"{path} is no run's record: it lacks {error}")
        except (OSError, ValueError, TypeError) as error:
            on_broken(f"{path} is no run's record: {error}")


def json_text(values: Any) -> str:
    """Indented JSON. NaN becomes null; an infinite score, such as that of perfect answers where the metric is a
    logarithm, is JSON's usual extension ``Infinity``, as in MLE-bench's reports."""
    return json.dumps(_without_nan(values), indent=2)


def _without_nan(values: Any) -> Any:
    if isinstance(values, Mapping):
        return {key: _without_nan(value) for key, value in values.items()}
    if isinstance(values, list | tuple):
        return [_without_nan(value) for value in values]
    return None if isinstance(values, float) and math.isnan(values) else values


def write_json(path: Path, values: Any) -> None:
    """Write JSON atomically and durably (see ``write_text``)."""
    write_text(path, json_text(values) + "\n")
