"""Reads, checks and grades submissions."""

from __future__ import annotations

import warnings
from importlib import import_module
from typing import TYPE_CHECKING, Any

from pytest_mlebench.io.extensions import moved

if TYPE_CHECKING:
    from pytest_mlebench.errors import InvalidSubmission
    from pytest_mlebench.grading.grader import Grader, grade
    from pytest_mlebench.records.outcome import Report

__all__ = ["Grader", "InvalidSubmission", "Report", "grade"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(import_module("pytest_mlebench"), name)
    authoring = import_module("pytest_mlebench.authoring")
    if name not in authoring.__all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    warnings.warn(
        f"pytest_mlebench.grading.{name} will be removed in version 0.3: import it from pytest_mlebench.authoring",
        DeprecationWarning,
        stacklevel=2,
    )
    return getattr(authoring, name)


_METRICS = {
    **dict.fromkeys(("divergence", "likelihood", "probabilistic", "roc"), "classification"),
    **dict.fromkeys(("audio", "correlation"), "ranking"),
    "geometry": "detection",
}
moved(
    "0.3",
    {
        "grading.strict": "authoring.checks",
        "grading.resampling": "authoring.resampling",
        "grading.metrics": "authoring.metrics",
        **{f"grading.metrics.{old}": f"authoring.metrics.{new}" for old, new in _METRICS.items()},
    },
)
