"""Converts tables with lists in their cells to a row per position, if values are to be predicted at each position."""

from __future__ import annotations

import numpy as np
import pandas as pd
from media import Frame
from readings import array_numbers
from tables import SEED, Source

MAX_TRAIN_ROWS = 5_200
"""More rows than the slow models accept."""
MIN_LENGTH, LONG = 5, 64
NEAR = 2
"""Number of neighbours on each side that are features."""
PAIRS = ("()", "[]", "{}")


def sequence_tables(sample: pd.DataFrame, tables: list[Source]) -> list[Frame]:
    """Return a training and a test table; none if no test table has the sample's ids without a position at the end."""
    id, targets = sample.columns[0], list(sample.columns[1:])
    parts = sample[id].str.extract(r"^(.*)_(\d+)$")
    if parts.isna().any(axis=None):
        return []
    tables = [table for table in tables if table.name.endswith((".json", ".jsonl"))]
    for test in (table for table in tables if "test" in table.name):
        asked = test.read_cells()
        key = next((name for name in asked if parts[0].isin(set(asked[name].astype(str))).all()), "")
        for train in (table for table in tables if key and table != test):
            known = train.read_cells()
            if {*targets, key} <= set(known.columns):
                known = known[known[targets].map(lambda cell: isinstance(cell, list) and len(cell) > 0).all(axis=1)]
                columns = [name for name in asked if name in known and name != key]
                rows = _rows(known, columns, targets, key, id)
                rows = rows.sample(min(len(rows), MAX_TRAIN_ROWS), random_state=SEED)
                return [Frame("train.csv", rows), Frame("test.csv", _rows(asked, columns, [], key, id))]
    return []


def measured_tables(sample: pd.DataFrame, tables: list[Source]) -> list[Frame]:
    """Return a training and a test table with features of the long lists of numbers in cells; none without such lists.

    A list whose length is a square number is treated as a picture, otherwise as a series.
    """
    tables = [table for table in tables if table.name.endswith((".json", ".jsonl"))]
    train = next((table.read_cells() for table in tables if "train" in table.name), None)
    test = next((table.read_cells() for table in tables if "test" in table.name), None)
    if train is None or test is None or sample.columns[0] not in test or not set(sample.columns[1:]) <= set(train):
        return []
    lists = [name for name in test if name in train and _is_long(train[name]) and _is_long(test[name])]
    return [Frame("train.csv", _measured(train, lists)), Frame("test.csv", _measured(test, lists))] if lists else []


def _is_long(column: pd.Series) -> bool:
    """Return whether all cells are lists of the same length, at least LONG, that begin with a number."""
    lengths = column.map(lambda cell: len(cell) if isinstance(cell, list) else 0)
    return int(lengths.iloc[0]) >= LONG and lengths.nunique() == 1 and isinstance(column.iloc[0][0], int | float)


def _measured(table: pd.DataFrame, lists: list[str]) -> pd.DataFrame:
    found = [table.drop(columns=lists)]
    for name in lists:
        values = np.array(table[name].tolist(), dtype=float)
        side = int(values.shape[1] ** 0.5)
        shape = (1, side, side) if side * side == values.shape[1] else (-1, 1)
        rows = np.array([array_numbers(row.reshape(shape)) for row in values])
        found.append(pd.DataFrame(rows.round(5), index=table.index).add_prefix(f"{name} "))
    return pd.concat(found, axis=1)


def _rows(table: pd.DataFrame, columns: list[str], targets: list[str], old: str, id: str) -> pd.DataFrame:
    found = []
    for record in table.to_dict("records"):
        series = {name: list(record[name]) for name in columns if isinstance(record[name], str | list)}
        length = max(map(len, series.values()), default=0)
        if length < MIN_LENGTH:
            continue
        made = {"position": np.arange(length), "from the end": np.arange(length, 0, -1)}
        made |= {name: record[name] for name in columns if isinstance(record[name], int | float)}
        for name, values in series.items():
            if len(values) == length and all(not isinstance(value, list | dict) for value in values):
                made |= _with_neighbours(name, values)
                made |= _of_partners(name, values, series, length)
        for name in targets:
            made[name] = [*record[name], *[np.nan] * (length - len(record[name]))]
        found.append(pd.DataFrame({id: [f"{record[old]}_{k}" for k in range(length)]} | made))
    rows = pd.concat(found, ignore_index=True)
    return rows.dropna(subset=targets) if targets else rows


def _with_neighbours(name: str, values: list[object]) -> dict[str, list[object]]:
    padded = [*[None] * NEAR, *values, *[None] * NEAR]
    if isinstance(values[0], str):
        padded = ["none" if value is None else value for value in padded]
    return {f"{name} {k - NEAR:+d}": padded[k : k + len(values)] for k in range(2 * NEAR + 1)}


def _of_partners(
    name: str, values: list[object], series: dict[str, list[object]], length: int
) -> dict[str, list[object]]:
    """If a series has brackets, return the values of the other series at the position of the matching bracket."""
    pair = next((pair for pair in PAIRS if pair[0] in values and pair[1] in values), None)
    if pair is None:
        return {}
    partner, opened = [-1] * length, []
    for k, value in enumerate(values):
        if value == pair[0]:
            opened.append(k)
        elif value == pair[1] and opened:
            partner[k] = opened.pop()
            partner[partner[k]] = k
    found: dict[str, list[object]] = {}
    for other, own in series.items():
        if other != name and len(own) == length and isinstance(own[0], str):
            found[f"{other} of the partner"] = [own[k] if k >= 0 else "none" for k in partner]
    return found
