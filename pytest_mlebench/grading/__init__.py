"""What a submission is worth: reading and checking it, metrics, the grade.

Graders import their helpers from here: ``columns`` reads values, ``ids`` pairs rows, ``checks`` refuses what is wrong.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_mlebench.errors import InvalidSubmission
    from pytest_mlebench.grading.checks import (
        require_above,
        require_between,
        require_columns,
        require_finite,
        require_not_missing,
        require_row_count,
        require_row_sums,
        require_text,
    )
    from pytest_mlebench.grading.columns import (
        class_labels,
        class_probabilities,
        label_sets,
        label_texts,
        labelled_columns,
        labelled_records,
        number_records,
        numeric,
        parse_texts,
        predictions,
        ranked_labels,
        texts,
        to_floats,
    )
    from pytest_mlebench.grading.grader import Grader, grade
    from pytest_mlebench.grading.ids import (
        align,
        alignment,
        answer_positions,
        isin,
        require_same_ids,
    )
    from pytest_mlebench.grading.report import Report

__all__ = [
    "Grader",
    "InvalidSubmission",
    "Report",
    "align",
    "alignment",
    "answer_positions",
    "class_labels",
    "class_probabilities",
    "grade",
    "isin",
    "label_sets",
    "label_texts",
    "labelled_columns",
    "labelled_records",
    "number_records",
    "numeric",
    "parse_texts",
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
    "texts",
    "to_floats",
]

_HOMES = {
    "InvalidSubmission": "pytest_mlebench.errors",
    "Grader": "pytest_mlebench.grading.grader",
    "grade": "pytest_mlebench.grading.grader",
    "Report": "pytest_mlebench.grading.report",
}
_HELPERS = ("checks", "ids", "columns")


def __getattr__(name: str) -> Any:
    # Collecting competitions needs the report's fields but no pandas, which the helpers import.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    helpers = (import_module(f"{__name__}.{module}") for module in _HELPERS)
    return next(getattr(module, name) for module in helpers if hasattr(module, name))
