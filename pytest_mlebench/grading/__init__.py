"""What a submission is worth: reading and checking it, metrics, the grade.

Graders import their helpers from here: the checks of a submission and ``InvalidSubmission``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_mlebench.errors import InvalidSubmission
    from pytest_mlebench.grading.checks import (
        align,
        alignment,
        class_labels,
        isin,
        label_sets,
        numeric,
        parse_texts,
        positions,
        predictions,
        ranked_labels,
        require_above,
        require_between,
        require_columns,
        require_finite,
        require_not_missing,
        require_row_count,
        require_row_sums,
        require_same_ids,
        require_text,
        require_whole,
        split_records,
        stringified,
        text,
        texts,
        to_floats,
        whole_numbers,
    )
    from pytest_mlebench.grading.grader import Grader, grade
    from pytest_mlebench.grading.report import Report

__all__ = [
    "Grader",
    "InvalidSubmission",
    "Report",
    "align",
    "alignment",
    "class_labels",
    "grade",
    "isin",
    "label_sets",
    "numeric",
    "parse_texts",
    "positions",
    "predictions",
    "ranked_labels",
    "require_above",
    "require_between",
    "require_columns",
    "require_finite",
    "require_not_missing",
    "require_row_count",
    "require_row_sums",
    "require_same_ids",
    "require_text",
    "require_whole",
    "split_records",
    "stringified",
    "text",
    "texts",
    "to_floats",
    "whole_numbers",
]

_HOMES = {
    "InvalidSubmission": "pytest_mlebench.errors",
    "Grader": "pytest_mlebench.grading.grader",
    "grade": "pytest_mlebench.grading.grader",
    "Report": "pytest_mlebench.grading.report",
}


def __getattr__(name: str) -> Any:
    # Collecting competitions needs the report's fields but no pandas, which the checks import.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES.get(name, "pytest_mlebench.grading.checks")), name)
