"""What a submission is worth: reading and checking it, metrics, the grade.

Graders import their helpers from here: the checks of a submission and ``InvalidSubmission``.
"""

from pytest_mlebench.errors import InvalidSubmission
from pytest_mlebench.grading.checks import (
    align,
    alignment,
    numeric,
    parse_texts,
    predictions,
    require_between,
    require_columns,
    require_finite,
    require_not_missing,
    require_row_count,
    require_row_sums,
    split_records,
    to_floats,
)
from pytest_mlebench.grading.grade import Grader, grade
from pytest_mlebench.grading.report import Report

__all__ = [
    "Grader",
    "InvalidSubmission",
    "Report",
    "align",
    "alignment",
    "grade",
    "numeric",
    "parse_texts",
    "predictions",
    "require_between",
    "require_columns",
    "require_finite",
    "require_not_missing",
    "require_row_count",
    "require_row_sums",
    "split_records",
    "to_floats",
]
