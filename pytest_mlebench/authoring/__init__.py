"""What ``prepare.py``, ``grade.py`` and ``synthetic.py`` of a competition import.

Graders import their helpers from here: ``columns`` reads values, ``ids`` pairs rows, ``checks`` refuses what is wrong.
Preparers import from the modules: ``tables``, ``files``, ``archives`` and others; metrics are in ``metrics``.
"""

from __future__ import annotations

import sys
import warnings
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

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
    # Collecting competitions needs none of it, and the helpers import pandas.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    modules = (import_module(f"pytest_mlebench.{module}") for module in _MODULES)
    return next(getattr(module, name) for module in modules if hasattr(module, name))


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


class _Moved(ModuleType):
    """A module at its old name, which is imported, with a warning, when something of it is used."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        new = f"{__name__}.{_MOVED[self.__name__.removeprefix(f'{__name__}.')]}"
        warnings.warn(f"{self.__name__} is now {new}, and goes with version 0.4", DeprecationWarning, stacklevel=2)
        return getattr(import_module(new), name)


_MOVED = {
    "bundled": "tables",
    "private_random": "corrections",
    **dict.fromkeys(("worlds.boxes", "worlds.masks", "worlds.things"), "worlds.images"),
    **dict.fromkeys(("worlds.audio", "worlds.video"), "worlds.media"),
    **dict.fromkeys(("worlds.facts", "worlds.spoken"), "worlds.text"),
    "worlds.tables": "worlds.labels",
}
for _old in _MOVED:
    sys.modules[f"{__name__}.{_old}"] = _Moved(f"{__name__}.{_old}")
