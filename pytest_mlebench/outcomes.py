"""Medals as pytest outcomes: their words, letters and colours, and what ``--min-medal`` makes of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pytest_mlebench.results.record import OUTCOMES, RunRecord


@dataclass(frozen=True)
class Outcome:
    """How an outcome of a run shows in pytest: category in the last line, letter and word in the progress line."""

    category: str
    letter: str
    colour: str
    passed: bool

    @property
    def word(self) -> str:
        return self.category.upper()

    @property
    def markup(self) -> dict[str, bool]:
        return dict.fromkeys(self.colour.split(), True)


BY_NAME = {
    "gold": Outcome("gold", "G", "yellow bold", True),
    "silver": Outcome("silver", "S", "white bold", True),
    "bronze": Outcome("bronze", "B", "yellow", True),
    "above_median": Outcome("above median", "M", "green", True),
    "no_medal": Outcome("no medal", "-", "cyan", True),
    "invalid_submission": Outcome("invalid submission", "I", "red", False),
    "no_submission": Outcome("no submission", "N", "red", False),
    "timed_out": Outcome("timed out", "T", "red", False),
    "out_of_memory": Outcome("out of memory", "O", "red", False),
    "crashed": Outcome("crashed", "C", "red", False),
    "error": Outcome("error", "E", "red", False),
}
_RANKS = {name: rank for rank, name in enumerate(OUTCOMES)}

_THRESHOLDS = ("gold_threshold", "silver_threshold", "bronze_threshold", "median_threshold", "percentile")


def outcome_of(record: RunRecord) -> Outcome:
    return BY_NAME[record.outcome]


def is_below(record: RunRecord, min_medal: str | None) -> bool:
    """Whether a graded run earned less than ``--min-medal`` asks for."""
    if min_medal is None or not BY_NAME[record.outcome].passed:
        return False
    wanted = "above_median" if min_medal == "median" else min_medal
    return _RANKS[record.outcome] > _RANKS[wanted]


def failure_text(record: RunRecord, log_tail: str, min_medal: str | None = None) -> str:
    """Why a run failed: the reason, how it ended, and the end of the agent's log."""
    report = record.report
    lines = [f"{record.agent} on {record.competition_id}, seed {record.seed}: {BY_NAME[record.outcome].category}"]
    if record.error:
        lines.append(f"the harness failed: {record.error}")
    elif is_below(record, min_medal):
        wanted = report.median_threshold if min_medal == "median" else getattr(report, f"{min_medal}_threshold")
        lines.append(f"score {report.score}; --min-medal {min_medal} asks for {wanted}")
    elif report.submission_exists:
        lines.append(f"reason: {report.error}")
    else:
        lines.append("reason: the agent left no submission.csv")
    how = f"{record.ending} after {record.seconds:.1f} s" + (f" ({record.detail})" if record.detail else "")
    lines.append(f"the run: {how}")
    if log_tail:
        lines += ["end of the agent's log:", *(f"    {line}" for line in log_tail.splitlines())]
    return "\n".join(lines)


def properties(record: RunRecord) -> list[tuple[str, Any]]:
    """What a test case's properties (in JUnit's XML, say) tell of a run."""
    report = record.report
    return [
        ("competition", record.competition_id),
        ("agent", record.agent),
        ("seed", record.seed),
        ("outcome", record.outcome),
        ("ending", record.ending),
        ("seconds", record.seconds),
        ("score", record.score),
        ("medal", report.medal),
        *((name, getattr(report, name)) for name in _THRESHOLDS),
        ("run_id", record.run_id),
    ]
