"""The outcome of a run, its limits, how it ended, and what its sandbox did.

Also the report of one submission, with the fields of MLE-bench's grading report, and a run's scores over time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from numbers import Real
from typing import Any

from pytest_mlebench import defaults
from pytest_mlebench.defaults import MEDALS, Medal
from pytest_mlebench.io.values import parse

TWIN = "twin"
"""The value of ``Report.generated`` for twins."""
TWIN_DATA = "twin data: not comparable with real scores"
"""The label of every result on twins."""
NO_SUBMISSION = "the agent left no submission.csv"
"""The reason that is shown for a run without a submission."""


@dataclass(frozen=True, kw_only=True)
class Report:
    """The result of grading one submission.

    ``score`` is rounded to five decimals; None for an invalid submission, and for a valid one without a score (NaN).
    ``error`` is the reason why a submission is invalid, ``grader_defect`` is whether the grader failed on it.
    ``score_low`` and ``score_high`` are the 95 % interval of the score over resamples of the test's rows. ``firm`` is
    whether the medal holds in 95 % of the resamples; None without a medal. All three are None if resampling does not
    support the metric (see ``authoring.resampling``).
    ``bench_version`` is the version of the benchmark, ``thresholds`` is whether its medals still mean the same as on
    Kaggle's leaderboard (see ``schema.MEDAL_VALIDITY``), ``contaminated`` is whether the answers are publicly known.
    ``generated`` is empty for the competition's own data, ``twin`` for a twin, which has its own thresholds, or
    ``synthetic``.

    >>> from pathlib import Path
    >>> from pytest_mlebench import read_group
    >>> report = read_group(Path("reports/first")).records[0].report
    >>> report.valid_submission, report.any_medal, report.score
    (True, False, 0.5)
    """

    competition_id: str
    score: float | None
    gold_threshold: float
    silver_threshold: float
    bronze_threshold: float
    median_threshold: float
    any_medal: bool
    gold_medal: bool
    silver_medal: bool
    bronze_medal: bool
    above_median: bool
    submission_exists: bool
    valid_submission: bool
    is_lower_better: bool
    created_at: str
    submission_path: str
    error: str | None = None
    grader_defect: bool = False
    percentile: float | None = None
    bench_version: str = defaults.VERSIONS[0]
    thresholds: str = "apply"
    contaminated: bool = False
    score_low: float | None = None
    score_high: float | None = None
    firm: bool | None = None
    generated: str = ""

    @property
    def medal(self) -> Medal | None:
        return "gold" if self.gold_medal else "silver" if self.silver_medal else "bronze" if self.bronze_medal else None

    @property
    def firmness(self) -> str:
        """Whether the medal is ``firm``, ``not firm`` or of ``unknown`` firmness; empty without a medal."""
        if self.medal is None:
            return ""
        return "unknown" if self.firm is None else "firm" if self.firm else "not firm"

    def to_json(self) -> dict[str, Any]:
        """The report as plain values. Its score may be infinite (see ``io.values.json_text``)."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class TimelinePoint:
    """The submission ``seconds`` after the agent's start, with the model calls and their cost up to then.

    ``cost`` is in US dollars. ``score`` and ``medal`` are what it would have earned as the final submission; ``error``
    says why it has no score. ``file`` is relative to the run directory.
    """

    seconds: float
    calls: int | None = None
    cost: float | None = None
    score: float | None = None
    medal: str | None = None
    error: str | None = None
    file: str = ""
    final: bool = False
    """Whether this is the run's final submission, which determines its score."""


@dataclass(frozen=True, kw_only=True)
class LastChange:
    """What a run lost by replacing its best submission with a worse one, or with none (``score`` and ``medal`` None).

    ``best_seconds`` is the time of the best submission.
    """

    best_seconds: float
    best_score: float
    best_medal: str | None
    score: float | None
    medal: str | None

    @property
    def medal_lost(self) -> bool:
        """Whether the best submission earned a better medal."""
        return medal_rank(self.best_medal) < medal_rank(self.medal)


def medal_rank(medal: str | None) -> int:
    """0 for gold; higher is worse."""
    return MEDALS.index(medal) if medal in MEDALS else len(MEDALS)


def last_change(points: Sequence[TimelinePoint], report: Report) -> LastChange | None:
    """What replacing the best submission cost; None if no earlier submission is better than the final one."""
    sign = 1 if report.is_lower_better else -1
    earlier = [(sign * p.score, p.seconds, p) for p in points if p.score is not None and not p.final]
    if not earlier or report.grader_defect:
        return None
    value, seconds, best = min(earlier, key=lambda entry: entry[:2])
    if report.score is not None and value >= sign * report.score:
        return None
    return LastChange(
        best_seconds=seconds, best_score=sign * value, best_medal=best.medal, score=report.score, medal=report.medal
    )


class Ending(StrEnum):
    """How an agent's run ended.

    >>> Ending("timed out") is Ending.TIMED_OUT
    True
    """

    FINISHED = "finished"
    TIMED_OUT = "timed out"
    OUT_OF_MEMORY = "out of memory"
    CRASHED = "crashed"
    BUDGET_ENDED = "budget ended"
    """The agent ended by itself after model calls had been refused because of a budget."""
    NOT_STARTED = "not started"


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The limits of a run. Sizes are in bytes, the time limit in seconds; None means unlimited.

    >>> Limits(time_limit=3600.0, cpus=4, memory=16 << 30).gpus
    0
    """

    time_limit: float = defaults.TIME_LIMIT
    cpus: float | None = None
    memory: int | None = None
    gpus: int = 0
    disk: int | None = None
    """Everything that the agent writes: in total if the sandbox can measure it, else for each file."""
    processes: int = defaults.PROCESSES
    log_bytes: int = defaults.LOG_BYTES
    """How much of the agent's output is kept: its head and its tail."""
    collect_bytes: int = defaults.COLLECT_BYTES
    """How much is collected at most from each of ``submission``, ``logs`` and ``code``."""
    collect_files: int = defaults.COLLECT_FILES

    def __post_init__(self) -> None:
        # A sandbox compares them with the machine's resources (see ``fair_share``).
        for name, value in asdict(self).items():
            if not (isinstance(value, Real) or (value is None and name in ("cpus", "memory", "disk"))):
                raise TypeError(f"{name} must be a number, not {value!r}")

    @property
    def grace(self) -> float:
        """Seconds between SIGTERM and SIGKILL after a timeout."""
        return min(defaults.GRACE_SECONDS, defaults.GRACE_SHARE * self.time_limit)

    @property
    def timeline_seconds(self) -> float:
        """Seconds for grading all snapshots of the run; at most its time limit."""
        return min(defaults.TIMELINE_SECONDS, self.time_limit)


@dataclass(frozen=True, kw_only=True)
class Connection:
    """A connection that an agent made or tried to make through the proxy. Times in seconds, sizes in bytes."""

    at: float = 0.0
    """Time since the run's start."""
    host: str = ""
    port: int = 0
    method: str = ""
    allowed: bool = False
    reason: str = ""
    """Why it was refused, or how it failed."""
    sent: int = 0
    received: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Validation:
    """One verdict of the submission checker; ``at`` is seconds since the run's start."""

    at: float
    verdict: str


@dataclass(frozen=True, kw_only=True)
class SandboxAccount:
    """What a sandbox did for one run, for the run's record. Everything that an agent can influence has a size limit.

    >>> from pathlib import Path
    >>> from pytest_mlebench import read_group
    >>> read_group(Path("reports/first")).records[0].sandbox.name
    'local'
    """

    name: str = ""
    """The kind of sandbox, such as ``docker`` or ``local``; empty if none started."""
    image: str = ""
    image_digest: str = ""
    container: str = ""
    network: str = ""
    """The network policy; ``not enforced`` if the sandbox cannot enforce one."""
    build_network: str = ""
    """The network access of the Dockerfile while the image was built."""
    runtime: str = ""
    privileged: bool = False
    gpus: tuple[str, ...] = ()
    gpu_usage: Mapping[str, Any] = field(default_factory=dict)
    """The usage of each GPU, by UUID (see ``sandbox.gpus.GpuUsage``)."""
    disk: str = ""
    """How the limit on disk space was enforced."""
    connections: tuple[Connection, ...] = ()
    unrecorded_connections: int = 0
    validations: tuple[Validation, ...] = ()
    left_out: tuple[str, ...] = ()
    """What was not collected, and why."""
    left_out_unnamed: int = 0
    """How many more items were not collected than ``left_out`` names."""
    left_behind: int = 0
    """The agent's processes that were still running when it ended."""
    limits: Mapping[str, Any] = field(default_factory=dict)
    """The limits that applied, by name."""
    notes: tuple[str, ...] = ()
    """What a reader should know, for example a limit that this sandbox does not enforce."""
    kept: str = ""
    """Where to find the container or folder of the run, if it was kept."""

    def to_json(self) -> dict[str, Any]:
        """The form in ``run.json``: empty values are left out; a validation is a pair of time and verdict."""
        values = {
            key: list(value) if isinstance(value, tuple) else value
            for key, value in asdict(self).items()
            if value not in ("", (), {}, 0)
        }
        if self.validations:
            values["validations"] = [[validation.at, validation.verdict] for validation in self.validations]
        return values

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> SandboxAccount:
        """Parse the result of ``to_json``. Nulls and unknown keys, which a later version may have added, are ignored.

        Raises ValueError for anything else.
        """
        if not isinstance(values, Mapping):
            raise ValueError(f"an account must be an object, not {type(values).__name__}")
        given = {key: value for key, value in values.items() if value is not None}
        if isinstance(pairs := given.get("validations"), list):
            given["validations"] = [
                {"at": pair[0], "verdict": pair[1]} if isinstance(pair, list) and len(pair) == 2 else pair
                for pair in pairs
            ]
        return parse(cls, given)


@dataclass(frozen=True, kw_only=True)
class Hardware:
    """A machine: the processors that this process may use, memory in bytes, and the number of GPUs by model."""

    host: str
    cpu: str
    cpus: int
    memory: int
    gpus: dict[str, int] = field(default_factory=dict)


class Outcome(StrEnum):
    """The outcome of a run, from best to worst. A member equals its name, which records and options use.

    Each line gives the name; whether a test passes with it; its letter in pytest's progress line; its colour (see
    ``reports.palette``); and what leads to it: a threshold that the score reaches, or the ending of a run without a
    submission. A new outcome needs only one more line.

    >>> Outcome.gold == "gold", Outcome.gold.letter, Outcome.gold.passed
    (True, 'G', True)
    >>> Outcome.crashed.passed
    False
    """

    passed: bool
    letter: str
    colour: str
    threshold: str | None
    ending: Ending | None

    gold = "gold", True, "G", "gold", "gold"
    silver = "silver", True, "S", "silver", "silver"
    bronze = "bronze", True, "B", "bronze", "bronze"
    above_median = "above_median", True, "M", "above", "median"
    no_medal = "no_medal", True, "-", "none"
    invalid_submission = "invalid_submission", False, "I", "failure"
    no_submission = "no_submission", False, "N", "failure"
    timed_out = "timed_out", False, "T", "failure", None, Ending.TIMED_OUT
    out_of_memory = "out_of_memory", False, "O", "failure", None, Ending.OUT_OF_MEMORY
    crashed = "crashed", False, "C", "failure", None, Ending.CRASHED
    budget_ended = "budget_ended", False, "$", "failure", None, Ending.BUDGET_ENDED
    error = "error", False, "E", "failure"
    """The harness or the grader failed, not the agent: the run has no result."""

    def __new__(
        cls,
        name: str,
        passed: bool,
        letter: str,
        colour: str,
        threshold: str | None = None,
        ending: Ending | None = None,
    ) -> Outcome:
        member = str.__new__(cls, name)
        member._value_ = name
        member.passed, member.letter, member.colour = passed, letter, colour
        member.threshold, member.ending = threshold, ending
        return member

    @property
    def label(self) -> str:
        """The outcome in words, for example ``above median``."""
        return self.replace("_", " ")

    @property
    def rank(self) -> int:
        """0 for the best outcome; higher is worse."""
        return list(Outcome).index(self)

    @property
    def medal(self) -> str | None:
        return self.threshold if self.threshold in MEDALS else None

    def is_below(self, min_medal: str | None) -> bool:
        """Whether this is a graded run that earned less than ``--min-medal`` requires."""
        return self.passed and min_medal is not None and self.rank > _BY_THRESHOLD[min_medal].rank


_BY_THRESHOLD = {outcome.threshold: outcome for outcome in Outcome if outcome.threshold}
WITHOUT_SUBMISSION = {outcome.ending: outcome for outcome in Outcome if outcome.ending}
"""The outcome of a run without a submission, if its ending explains why there is none."""
THRESHOLDS = tuple(_BY_THRESHOLD)
"""The values of ``--min-medal``: gold, silver, bronze, median."""
FAILURES = tuple(outcome for outcome in Outcome if not outcome.passed)
