"""Every run of a few run groups in one line each, and these as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from typing import Any

from pytest_mlebench.results.group import RunGroupResults

_OF_REPORT = (
    "any_medal",
    "above_median",
    "valid_submission",
    "submission_exists",
    "score",
    "percentile",
    "gold_threshold",
    "silver_threshold",
    "bronze_threshold",
    "median_threshold",
    "is_lower_better",
)
_OF_RECORD = ("ending", "detail", "seconds", "started_at", "run_id")
COLUMNS = (
    "group",
    "agent",
    "competition_id",
    "seed",
    "split",
    "category",
    "outcome",
    *_OF_REPORT,
    *_OF_RECORD,
    "error",
)
MISSING = "missing"
"""The outcome of a run that is planned and has no record."""


def run_rows(groups: Sequence[RunGroupResults]) -> Iterator[dict[str, Any]]:
    """The runs, planned ones included, with ``COLUMNS`` as keys; what a missing run does not have is None.

    ``error`` is the harness's trouble, else why the submission is invalid.
    """
    for group in groups:
        for key in sorted(group.planned | group.runs.keys()):
            row = dict.fromkeys(COLUMNS) | {"group": group.name, **key._asdict(), "outcome": MISSING}
            row |= group.places[key.competition_id]._asdict()
            if run := group.runs.get(key):
                row |= {name: getattr(run.report, name) for name in _OF_REPORT}
                row |= {name: getattr(run, name) for name in _OF_RECORD}
                row |= {"outcome": run.outcome, "error": run.error or run.report.error}
            yield row


def to_csv(groups: Sequence[RunGroupResults]) -> str:
    """The runs as comma-separated values with a head; an empty field is a value that is not there."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(run_rows(groups))
    return text.getvalue()
