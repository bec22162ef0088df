"""A run's record: everything that is known of one run of an agent, kept in ``run.json``."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from pytest_mlebench.data.durable import write_text
from pytest_mlebench.grading.report import Report
from pytest_mlebench.sandbox.base import Ending

RECORD = "run.json"
METADATA = "metadata.json"
GRADING_REPORT = "grading_report.json"


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
    description: str | None = None

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
        """The reverse of ``to_json``; keys that a later version has added are ignored."""
        kept = _known(cls, values)
        return cls(**{**kept, "report": Report(**_known(Report, kept["report"]))})

    def write(self, run_dir: Path) -> None:
        """Write ``run.json``, at once or not at all."""
        write_json(run_dir / RECORD, self.to_json())


def _known(cls: type[Any], values: Mapping[str, Any]) -> dict[str, Any]:
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


def read_records(group_dir: Path) -> list[RunRecord]:
    """The records of all finished runs of a group, by start; what is not a record is left out."""
    return sorted(_records(group_dir), key=lambda record: (record.started_at, record.run_id))


def _records(group_dir: Path) -> Iterator[RunRecord]:
    for path in sorted(group_dir.glob(f"*/{RECORD}")):
        try:
            yield RunRecord.from_json(json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError, KeyError):
            continue


def write_json(path: Path, values: Any) -> None:
    """Write JSON atomically and durably (see ``write_text``)."""
    write_text(path, json.dumps(values, indent=2) + "\n")
