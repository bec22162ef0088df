"""What corrected versions of competitions share: splits that keep groups together, and files without what leaks.

``hold_out_groups(key)`` has the signature of ``tables.split``, so that a preparer that takes its split as an argument
is corrected in a line::

    prepare = partial(first.prepare, split=hold_out_groups("PatientID"))
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Hashable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

Split = Callable[..., tuple[Any, Any]]


def hold_out_groups(key: str | Callable[[Any], Iterable[Hashable]]) -> Split:
    """A split of a table, an array or a list into (train, test) that leaves the rows of a group on one side.

    ``key`` is the column that names the groups, or gives the group of each row. Groups are drawn with a fixed seed
    until the test has its size in rows: a share where ``test_size`` is a float, else a number. The order of rows is
    kept. Neither side is empty; ValueError where there is one group alone.
    """

    def split(rows: Any, test_size: float | int, **_: Any) -> tuple[Any, Any]:
        groups = rows[key] if isinstance(key, str) else key(rows)
        codes, names = pd.factorize(pd.Series(list(groups), dtype=object), use_na_sentinel=False)
        if len(names) < 2:
            raise ValueError(f"all {len(codes)} rows are of one group: they cannot be split")
        wanted = test_size if isinstance(test_size, int) else test_size * len(codes)
        drawn = np.random.RandomState(0).permutation(len(names))
        before = np.cumsum(np.bincount(codes)[drawn]) - np.bincount(codes)[drawn]
        held_out = drawn[: min(int((before < wanted).sum()), len(names) - 1)]
        is_test = np.isin(codes, held_out)
        return _take(rows, ~is_test), _take(rows, is_test)

    return split


def _take(rows: Any, chosen: np.ndarray) -> Any:
    if isinstance(rows, pd.DataFrame | pd.Series | np.ndarray):
        return rows[chosen]
    return [row for row, is_chosen in zip(rows, chosen, strict=True) if is_chosen]


def without_fields(records: Iterable[dict[str, Any]], fields: Collection[str]) -> list[dict[str, Any]]:
    """Records of a JSON file without the fields that leak."""
    return [{name: value for name, value in record.items() if name not in fields} for record in records]


def rewrite_json(path: Path, change: Callable[[Any], Any], **options: Any) -> None:
    """Write a JSON file anew; ``options`` as for ``json.dumps``. The file that it was linked to stays as it is."""
    changed = json.dumps(change(json.loads(path.read_bytes())), **options)
    path.unlink()
    path.write_text(changed, encoding="utf-8")
