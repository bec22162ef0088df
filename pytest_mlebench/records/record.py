"""A run's record, which is stored in ``run.json``, and the names of files in run groups and run directories.

A sandbox leaves ``RUN_LOG``, ``SUBMISSION``, ``FILES`` and ``COLLECTED`` in a run directory (see its contract).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from pytest_mlebench.errors import quoted
from pytest_mlebench.io.files import regular_bytes
from pytest_mlebench.io.units import MAX_SECONDS
from pytest_mlebench.io.values import as_count, as_number, loads, parse, valid_text, write_json
from pytest_mlebench.records.outcome import (
    NO_SUBMISSION,
    THRESHOLDS,
    TWIN,
    WITHOUT_SUBMISSION,
    Ending,
    LastChange,
    Outcome,
    Report,
    SandboxAccount,
    TimelinePoint,
    last_change,
)

MANIFEST = "manifest.json"
"""What the runs of a group have in common (see ``records.manifest``)."""
METADATA = "metadata.json"
"""The success of each run, in MLE-bench's format."""
GRADING_REPORT = "grading_report.json"
"""The grades of all runs, in MLE-bench's format."""
MAX_RECORD = 64 << 20
"""Maximum bytes of a run's record."""
REPORT = "report.html"
EVENTS = "events.jsonl"
"""Events that the group's sessions reported, besides its runs (see ``records.group.log_event``)."""
JOBS = ".jobs"
"""What was submitted to an engine, by run."""
LOCK = ".lock"
"""Held by the session that writes the group."""
WORKERS = ".workers"
"""Held by the workers of a session."""

RECORD = "run.json"
"""In a run directory: the record of a finished run (see ``RunRecord``)."""
RUNNING = "running.json"
"""In a run directory: a run in progress (see ``records.group.mark_running``)."""
SUBMISSION = "submission/submission.csv"
"""In a run directory: the agent's result."""
RUN_LOG = "run.log"
FILES = "files.zip"
"""In a run directory: the agent's other files, archived so that nothing imports or executes them by accident."""
COLLECTED = ("submission", "logs", "code")
"""The folders of an agent that are collected."""
VALIDATION = "submission/validation.json"
"""Among the agent's files: the score that the agent expects, if it reports one."""


class RunKey(NamedTuple):
    """The key of a run, which is unique within a group.

    >>> RunKey("aide", "spaceship-titanic", seed=2).seed
    2
    """

    agent: str
    competition_id: str
    seed: int

    @property
    def run_prefix(self) -> str:
        """The prefix of its run directories' names, ``<competition id>_<agent>-<seed>-``, before a unique suffix."""
        return f"{self.competition_id}_{re.sub(r'[^A-Za-z0-9.]+', '-', self.agent)}-{self.seed}-"


@dataclass(frozen=True, kw_only=True)
class ModelUsage:
    """A run's use of one language model. ``cost`` is in US dollars; None if the record does not have the value.

    >>> Usage.of({"models": {"gpt-5": {"provider": "openai", "calls": 3, "cost": 0.02}}}).models["gpt-5"].calls
    3
    """

    provider: str = ""
    calls: int = 0
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost: float | None = None


@dataclass(frozen=True, kw_only=True)
class Usage:
    """A run's use of language models, from its record's ``llm`` (see ``llm.ledger.Totals``).

    >>> usage = Usage.of({"calls": 3, "tokens": {"input": 1200, "output": 90}, "cost": 0.02})
    >>> usage.calls, usage.tokens["input"], usage.models
    (3, 1200, {})
    """

    gateway: str | None = None
    """``on``, ``off`` or ``replay``; None if the agent makes no calls, or if it is unknown."""
    calls: int | None = None
    """None if they were not counted."""
    cost: float | None = None
    """In US dollars; None if the cost of a call is unknown."""
    known_cost: float = 0.0
    seconds: float = 0.0
    tokens: Mapping[str, int] = field(default_factory=dict)
    """By kind. ``cached`` tokens are part of ``input``, ``reasoning`` tokens are part of ``output``."""
    models: Mapping[str, ModelUsage] = field(default_factory=dict)
    errors: Mapping[str, int] = field(default_factory=dict)
    """Failed calls by status."""
    withheld: Mapping[str, int] = field(default_factory=dict)
    """Provider tools that the agent requested and did not get."""
    refusals: Mapping[str, int] = field(default_factory=dict)
    """Unanswered calls by reason."""
    replayed: int = 0
    replayed_nearly: int = 0
    left_out: int = 0
    """Calls that are missing from the recording, or whose bodies are, because they would have made it too large, or
    because of a ``write_error``."""
    write_error: str | None = None
    """The first error of writing the recording or the account, such as a full disk. The totals are complete."""
    budget_ended: str | None = None
    """The option whose budget was exhausted."""

    @classmethod
    def of(cls, llm: Mapping[str, Any]) -> Usage:
        """Parse a record's ``llm``. Raises ValueError for invalid totals or models; ignores other invalid values."""
        for name in ("calls", "cost", "known_cost", "seconds"):
            if not isinstance(llm.get(name), int | float | None):
                raise ValueError(f"llm.{name} must be a number")
        models = llm.get("models") or {}
        found = models.values() if isinstance(models, Mapping) else [None]
        if not all(isinstance(model, Mapping) and as_count(model.get("calls", 0)) is not None for model in found):
            raise ValueError("llm.models must be an object of objects, with numbers of calls")
        ended, gateway, failed = llm.get("budget_ended"), llm.get("gateway"), llm.get("write_error")
        try:
            calls = None if llm.get("calls") is None else int(llm["calls"])
            cost, known_cost, seconds = (float(llm.get(name) or 0) for name in ("cost", "known_cost", "seconds"))
        except OverflowError as error:
            raise ValueError("llm has a number that is too large") from error
        return cls(
            gateway=gateway if isinstance(gateway, str) else None,
            calls=calls,
            cost=None if llm.get("cost") is None else cost,
            known_cost=known_cost,
            seconds=seconds,
            models={valid_text(str(name)): _model_usage(model) for name, model in models.items()},
            replayed=as_count(llm.get("replayed")) or 0,
            replayed_nearly=as_count(llm.get("replayed_nearly")) or 0,
            left_out=as_count(llm.get("left_out")) or 0,
            write_error=valid_text(str(failed)) if failed else None,
            budget_ended=valid_text(str(ended)) if ended else None,
            **{name: _counts(llm.get(name)) for name in ("tokens", "errors", "withheld", "refusals")},
        )

    @property
    def unanswered(self) -> str:
        """Why no call was answered; empty if one was, if there was none, or if the budget ended."""
        if self.calls or self.budget_ended or not self.refusals:
            return ""
        reason = max(self.refusals, key=lambda text: self.refusals[text])
        return f"no model call was answered ({sum(self.refusals.values())} failed): {reason}"


def _model_usage(values: Mapping[str, Any]) -> ModelUsage:
    return ModelUsage(
        provider=valid_text(str(values.get("provider") or "")),
        calls=values.get("calls", 0),
        input_tokens=as_count(values.get("input_tokens")),
        output_tokens=as_count(values.get("output_tokens")),
        cost=as_number(values.get("cost")),
    )


def _counts(values: Any) -> dict[str, int]:
    pairs = values.items() if isinstance(values, Mapping) else ()
    return {valid_text(str(name)): value for name, value in pairs if as_count(value) is not None}


_MAX_AMOUNT = 1e15
"""Largest number of calls, of seconds that calls took together, or of dollars."""


SEEDS = 1 << 63
"""Number of possible seeds: what a database can store."""


def check_seed(seed: object, name: str = "seed") -> None:
    """Raise ValueError unless this can be a run's seed."""
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < SEEDS:
        raise ValueError(f"{name} must be from 0 to 2^63 - 1, not {quoted(seed)}")


def _check_seconds(name: str, seconds: float) -> None:
    if not abs(seconds) <= MAX_SECONDS:
        raise ValueError(f"{name} must be at most a hundred years, in seconds, not {seconds}")


def _check_amounts(name: str, *amounts: float | None) -> None:
    if not all(abs(amount or 0) <= _MAX_AMOUNT for amount in amounts):
        raise ValueError(f"{name} has an impossible number of calls, seconds or dollars")


def check_moment(name: str, text: str) -> None:
    """Raise ValueError unless this is a time in ISO 8601."""
    try:
        is_valid = 1970 <= datetime.fromisoformat(text).year < 9999
    except ValueError:
        is_valid = False
    if not is_valid:
        raise ValueError(f"{name} must be an ISO 8601 time, not {text[:40]!r}")


@dataclass(frozen=True, kw_only=True)
class RunRecord:
    """The record of a run: agent × competition × seed, how it ended, and the report of its submission.

    Times are ISO 8601 in UTC, durations in seconds. ``error`` says why the harness failed, if it did.

    >>> from pathlib import Path
    >>> from pytest_mlebench import read_group
    >>> record = read_group(Path("reports/first")).records[0]
    >>> record.agent, record.competition_id, record.seed, record.ending.value
    ('dummy', 'smoke-breast-cancer', 0, 'finished')
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
    ending: Ending
    seconds: float
    detail: str = ""
    exit_code: int | None = None
    signal: str | None = None
    report: Report
    error: str | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    limits: Mapping[str, Any] = field(default_factory=dict)
    sandbox: SandboxAccount = field(default_factory=SandboxAccount)
    confinement: Mapping[str, Any] = field(default_factory=dict)
    """What confined the processes that checked and graded the submission, as the kernel reported it."""
    llm: Mapping[str, Any] = field(default_factory=dict)
    """The run's use of language models, as stored (see ``usage``); empty if there was none."""
    agent_definition: Mapping[str, Any] = field(default_factory=dict)
    data_verified: bool | None = None
    data: Mapping[str, str] = field(default_factory=dict)
    """Digests of the prepared data (see ``data.dataset.fingerprint``)."""
    synthetic_data: bool | None = None
    """Whether the competition's ``synthetic.py`` generated the data; None if this was not recorded."""
    twin: Mapping[str, Any] = field(default_factory=dict)
    """For a run on a twin: the key of the twin's seed, its size and, with ``--twin-per-seed``, the run's seed. Empty
    for other data."""
    data_source: str = ""
    """The URL that the data was fetched from, without a password; empty if it was prepared on the run's machine."""
    description: str | None = None
    """Which task description the agent read: ours (``bundled``), ours with the competition's name hidden
    (``obfuscated``), Kaggle's pages (``kaggle``), or that of another program that prepared the data, such as MLE-bench
    (``other``)."""
    timeline: tuple[TimelinePoint, ...] = ()
    """The submission over time; empty if there was neither a snapshot nor a submission."""
    validation_score: float | None = None
    """The score that the agent expected."""
    permissions: Mapping[str, Any] = field(default_factory=dict)
    """The permissions that the user granted to the agent, and those that it used (see ``runs.run``)."""
    job: Mapping[str, Any] = field(default_factory=dict)
    """The engine's job that executed the run, if any (see ``runs.run.RunOptions``)."""

    def __post_init__(self) -> None:
        _ = self.usage
        for name in ("granted", "used"):
            if not isinstance(self.permissions.get(name, {}), Mapping):
                raise ValueError(f"permissions.{name} must be an object")

    @property
    def key(self) -> RunKey:
        return RunKey(self.agent, self.competition_id, self.seed)

    @property
    def is_twin(self) -> bool:
        """Whether the data was a twin's. A run read from a grading report has no ``twin``; only its report says so."""
        return bool(self.twin) or self.report.generated == TWIN

    @cached_property
    def usage(self) -> Usage:
        """The run's use of language models."""
        return Usage.of(self.llm)

    @property
    def cost(self) -> float | None:
        """The cost of its model calls in US dollars; None if it is unknown, or if the gateway counted no calls.

        An imported run may have a cost but no number of calls.
        """
        return None if self.usage.calls == 0 else self.usage.cost

    @property
    def models_called(self) -> dict[str, int]:
        """The language models that answered, with the number of calls."""
        return {name: model.calls for name, model in self.usage.models.items()}

    @property
    def last_change(self) -> LastChange | None:
        """What replacing the best submission cost; None if no earlier submission is better than the final one."""
        return last_change(self.timeline, self.report)

    @property
    def validation_gap(self) -> float | None:
        """How much better the expected score is than the actual score; negative if the actual score is better."""
        if self.validation_score is None or self.score is None:
            return None
        gap = self.validation_score - self.score
        return -gap if self.report.is_lower_better else gap

    @property
    def score(self) -> float | None:
        return self.report.score

    @property
    def thresholds(self) -> Mapping[str, float]:
        """The leaderboard's thresholds: gold, silver, bronze and median."""
        return {name: getattr(self.report, f"{name}_threshold") for name in THRESHOLDS}

    @property
    def outcome(self) -> Outcome:
        """The outcome of the run. An exception in the grader gives ``error``: it is not a failure of the agent."""
        report = self.report
        if self.error is not None or report.grader_defect:
            return Outcome.error
        if report.valid_submission:
            return Outcome[report.medal or ("above_median" if report.above_median else "no_medal")]
        if report.submission_exists:
            return Outcome.invalid_submission
        return WITHOUT_SUBMISSION.get(self.ending, Outcome.no_submission)

    @property
    def reason(self) -> str | None:
        """Why the run has no valid submission; None if it has one."""
        if self.error is None and self.report.grader_defect:
            return f"the grader of {self.competition_id} is defective: {self.report.error}"
        return self.error or (self.report.error if self.report.submission_exists else self.unanswered or NO_SUBMISSION)

    @property
    def unanswered(self) -> str:
        """Why none of its model calls was answered; empty if one was, if it made none, or if its budget ended."""
        return self.usage.unanswered

    def to_json(self) -> dict[str, Any]:
        """The record as plain values, which xdist can send."""
        change = self.last_change
        return {
            **asdict(self),
            "ending": self.ending.value,
            "sandbox": self.sandbox.to_json(),
            "outcome": self.outcome.value,
            "last_change": change and {**asdict(change), "medal_lost": change.medal_lost},
        }

    @classmethod
    def from_json(cls, values: Any) -> RunRecord:
        """Parse the result of ``to_json``. Unknown keys, which a later version may have added, are ignored.

        Raises ValueError for anything else.
        """
        record = parse(cls, values)
        record._check()
        return record

    def _check(self) -> None:
        """Raise ValueError for values that no run has, and that no table, plot or database could show."""
        check_seed(self.seed)
        check_moment("started_at", self.started_at)
        check_moment("ended_at", self.ended_at)
        _check_seconds("seconds", self.seconds)
        for name, limits in (("limits", self.limits), ("sandbox.limits", self.sandbox.limits)):
            if isinstance(limit := limits.get("time_limit"), float) and not math.isfinite(limit):
                raise ValueError(f"{name}.time_limit must be a number of seconds, not {limit}")
        for connection in self.sandbox.connections:
            _check_seconds("sandbox.connections.at", connection.at)
            _check_seconds("sandbox.connections.seconds", connection.seconds)
        for validation in self.sandbox.validations:
            _check_seconds("sandbox.validations", validation.at)
        usage = self.usage
        _check_amounts("llm", usage.calls, usage.cost, usage.known_cost, usage.seconds)
        for point in self.timeline:
            _check_seconds("timeline.seconds", point.seconds)
            _check_amounts("timeline", point.calls, point.cost)
        if (run_seed := self.twin.get("run_seed")) is not None:
            check_seed(run_seed, "twin.run_seed")

    @classmethod
    def read(cls, run_dir: Path) -> RunRecord:
        """Read ``run.json``. Raises OSError, or ValueError if it is not the record of the run with this directory."""
        return cls.of_run(run_dir.name, regular_bytes(run_dir / RECORD, MAX_RECORD, follow_links=False))

    @classmethod
    def of_run(cls, folder: str, content: bytes) -> RunRecord:
        """Parse a record. Raises ValueError if it is not that of the run with a folder of this name."""
        record = cls.from_json(loads(content))
        if record.run_id != folder:  # readers find the run's files by its id
            raise ValueError(f"run_id must be the name of its folder, not {record.run_id[:100]!r}")
        return record

    def write(self, run_dir: Path) -> None:
        """Write ``run.json`` atomically."""
        write_json(run_dir / RECORD, self.to_json())


_MAX_TEXT = 8000
_MAX_SHORT_TEXT = 1000
_MAX_POINT_TEXT = 300
_MAX_LIST = 200_000
_MAX_ENTRIES = 100

Item = TypeVar("Item")


def bounded(record: RunRecord) -> RunRecord:
    """The record with long texts truncated, and with only as many connections, validations and notes as fit."""
    return replace(
        record,
        detail=_truncated(record.detail, _MAX_TEXT),
        error=record.error and _truncated(record.error, _MAX_TEXT),
        report=replace(record.report, error=record.report.error and _truncated(record.report.error, _MAX_TEXT)),
        sandbox=_bounded_account(record.sandbox),
        llm=_bounded_json(record.llm),
        timeline=tuple(replace(p, error=p.error and _truncated(p.error, _MAX_POINT_TEXT)) for p in record.timeline),
    )


def _bounded_account(account: SandboxAccount) -> SandboxAccount:
    connections = _first(account.connections)
    validations = _first(reversed(account.validations))[::-1]
    left_out = _first(account.left_out)
    dropped = len(account.validations) - len(validations)
    return replace(
        account,
        connections=connections,
        unrecorded_connections=account.unrecorded_connections + len(account.connections) - len(connections),
        validations=validations,
        left_out=left_out,
        left_out_unnamed=account.left_out_unnamed + len(account.left_out) - len(left_out),
        notes=(*_first(account.notes), *([f"{dropped} earlier validations are not recorded"] if dropped else [])),
    )


def _bounded_json(values: Any) -> Any:
    """JSON values with only their first entries, and short texts: agents may have chosen the names of models."""
    if isinstance(values, Mapping):
        entries = list(values.items())[:_MAX_ENTRIES]
        return {_truncated(key, _MAX_SHORT_TEXT): _bounded_json(value) for key, value in entries}
    if isinstance(values, list | tuple):
        return [_bounded_json(value) for value in values[:_MAX_ENTRIES]]
    return _truncated(values, _MAX_SHORT_TEXT) if isinstance(values, str) else values


def _first(items: Iterable[Item]) -> tuple[Item, ...]:
    """The first items, with their texts truncated, that fit into a list's share of the record."""
    taken, size = [], 0
    for item in map(_with_short_texts, items):
        values = item if isinstance(item, str) else asdict(item)
        size += len(json.dumps(values, indent=8)) + 16
        if size > _MAX_LIST:
            break
        taken.append(item)
    return tuple(taken)


def _with_short_texts(item: Any) -> Any:
    if isinstance(item, str):
        return _truncated(item, _MAX_SHORT_TEXT)
    texts = {name: _truncated(text, _MAX_SHORT_TEXT) for name, text in vars(item).items() if isinstance(text, str)}
    return replace(item, **texts)


def _truncated(text: str, max_bytes: int) -> str:
    """The text, or its beginning and ``…`` if its JSON is longer than ``max_bytes``."""
    if len(json.dumps(text)) <= max_bytes:
        return text
    size = 0
    for position, character in enumerate(text):
        size += len(json.dumps(character)) - 2
        if size > max_bytes - 8:
            return text[:position] + "…"
    return text
