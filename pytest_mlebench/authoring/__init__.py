"""Helpers for a competition's ``prepare.py``, ``grade.py``, ``synthetic.py`` and ``twin.py``.

Graders import from this package: functions that read columns, reject invalid submissions, and match rows by id.
Other files import from its modules, such as ``tables``, ``files``, ``archives``, ``metrics`` and ``worlds``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pytest_mlebench.io.extensions import moved

if TYPE_CHECKING:
    from pytest_mlebench.authoring.checks import (
        require_above,
        require_between,
        require_columns,
        require_finite,
        require_not_missing,
        require_row_count,
        require_row_sums,
        require_text,
    )
    from pytest_mlebench.authoring.columns import (
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
    from pytest_mlebench.authoring.ids import align, alignment, answer_positions, isin, require_same_ids
    from pytest_mlebench.errors import InvalidSubmission

__all__ = [
    "InvalidSubmission",
    "align",
    "alignment",
    "answer_positions",
    "class_labels",
    "class_probabilities",
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

_MODULES = ("errors", "authoring.checks", "authoring.ids", "authoring.columns")


def __getattr__(name: str) -> Any:
    # Imported on first use: the helpers import pandas, which collecting competitions does not need.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    modules = (import_module(f"pytest_mlebench.{module}") for module in _MODULES)
    return next(getattr(module, name) for module in modules if hasattr(module, name))


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


moved(
    "0.4",
    {
        "authoring.bundled": "authoring.tables",
        "authoring.private_random": "authoring.corrections",
        **dict.fromkeys((f"authoring.worlds.{old}" for old in ("boxes", "masks", "things")), "authoring.worlds.images"),
        **dict.fromkeys((f"authoring.worlds.{old}" for old in ("audio", "video")), "authoring.worlds.media"),
        **dict.fromkeys((f"authoring.worlds.{old}" for old in ("facts", "spoken")), "authoring.worlds.text"),
        "authoring.worlds.tables": "authoring.worlds.labels",
    },
)
