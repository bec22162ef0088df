"""Every run of some run groups as a row, and these as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from typing import Any

from pytest_mlebench.records.group import RunGroup
from pytest_mlebench.records.outcome import THRESHOLDS
from pytest_mlebench.records.record import RunRecord
from pytest_mlebench.reports.untrusted import no_formula, plain

_OF_REPORT = (
    "any_medal",
    "above_median",
    "valid_submission",
    "submission_exists",
    "score",
    "score_low",
    "score_high",
    "firm",
    "percentile",
    *(f"{name}_threshold" for name in THRESHOLDS),
    "is_lower_better",
    "thresholds",
    "generated",
)
_OF_RECORD = ("ending", "detail", "seconds", "started_at", "run_id")
_OF_MODELS = ("cost", "model_calls", "input_tokens", "output_tokens", "budget_ended")
_OVER_TIME = ("submissions", "best_score", "best_medal", "medal_lost", "validation_score", "validation_gap")
COLUMNS = (
    "group",
    "agent",
    "competition_id",
    "seed",
    "split",
    "category",
    "bench_version",
    "outcome",
    *_OF_REPORT,
    *_OF_RECORD,
    "error",
    *_OF_MODELS,
    *_OVER_TIME,
)
MISSING = "missing"
"""The outcome of a planned run without a record."""


def run_rows(groups: Sequence[RunGroup]) -> Iterator[dict[str, Any]]:
    """The runs, including planned ones, with ``COLUMNS`` as keys; values that a missing run does not have are None.

    ``error`` is why the harness or the grader failed, else why the submission is invalid.
    """
    for group in groups:
        for key in sorted(group.planned | group.runs.keys()):
            row = dict.fromkeys(COLUMNS) | {"group": group.name, **key._asdict(), "outcome": MISSING}
            row["bench_version"] = group.version
            row |= group.splits_and_categories[key.competition_id]._asdict()
            if run := group.runs.get(key):
                row |= {name: getattr(run.report, name) for name in _OF_REPORT}
                row |= {name: getattr(run, name) for name in _OF_RECORD}
                row |= _models(run) | _over_time(run)
                row |= {"outcome": run.outcome, "error": run.reason}
            yield row


def _models(run: RunRecord) -> dict[str, Any]:
    if "calls" not in run.llm:
        return {}
    tokens = run.llm.get("tokens") or {}
    values = (run.cost, run.llm["calls"], tokens.get("input"), tokens.get("output"), run.llm.get("budget_ended"))
    return dict(zip(_OF_MODELS, values, strict=True))


def _over_time(run: RunRecord) -> dict[str, Any]:
    """``best_score`` and ``best_medal`` are those of the best submission that was seen, the last one included."""
    change = run.last_change
    best = (run.score, run.report.medal) if change is None else (change.best_score, change.best_medal)
    lost = change is not None and change.medal_lost
    values = (len(run.timeline), *best, lost, run.validation_score, run.validation_gap)
    return dict(zip(_OVER_TIME, values, strict=True))


def to_csv(groups: Sequence[RunGroup]) -> str:
    """The runs as comma-separated values with a header; a field without a value is empty."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for row in run_rows(groups):
        writer.writerow({name: no_formula(plain(own)) if isinstance(own, str) else own for name, own in row.items()})
    return text.getvalue()
