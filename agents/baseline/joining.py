"""Splits ids that join the values of several columns, and adds features of these values from other tables."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import pandas as pd
from media import Frame
from tables import SEED, Source, to_numbers
from task import CannotSolve

MAX_ROWS = 10_000
MIN_PARTS, MAX_PARTS = 2, 6
LEAST_KNOWN = 0.5
"""A part of the id is a feature if at least this share of its test values occurs in training."""


def joined_tables(sample: pd.DataFrame, tables: list[Source]) -> list[Frame]:
    """Return training and test rows with the parts of their ids, and with columns of tables that describe these parts.

    Returns no tables if no training table has the sample's columns, and columns that together form its id.
    """
    id, targets = sample.columns[0], list(sample.columns[1:])
    if any(id in table.columns() for table in tables if "test" in table.name):
        return []
    for table in tables:
        if not {id, *targets} <= set(table.columns()):
            continue
        train = table.read()
        train = train.sample(min(len(train), MAX_ROWS), random_state=SEED)
        names = next(_parts(train.head(100), id, targets, []), [])
        test = _split(sample[id], train, names) if len(names) >= MIN_PARTS else None
        if test is None:
            continue
        train = train[[*names, *targets]].assign(**{id: train[id]})
        return [
            Frame(f"{kind}.csv", _without_names(_with_beside(rows, names, tables, kind), names, train, test))
            for kind, rows in (("train", train), ("test", test))
        ]
    return []


def _parts(rows: pd.DataFrame, id: str, targets: list[str], found: list[str]) -> Iterator[list[str]]:
    """Yield lists of columns whose values, joined by underscores, form the rest of the ids."""
    rest = rows["rest"] if "rest" in rows else rows[id]
    for column in rows.columns:
        if column in (id, "rest", *targets, *found) or len(found) >= MAX_PARTS:
            continue
        values = rows[column]
        if (rest == values).all():
            yield [*found, column]
        elif all(own and text.startswith(f"{own}_") for text, own in zip(rest, values, strict=True)):
            left = [text[len(own) + 1 :] for text, own in zip(rest, values, strict=True)]
            yield from _parts(rows.assign(rest=left), id, targets, [*found, column])


def _split(ids: pd.Series, train: pd.DataFrame, names: list[str]) -> pd.DataFrame | None:
    """Split the ids into parts. Each part has as many underscores as in training."""
    counts = [int(train[name].iloc[0].count("_")) for name in names]
    pattern = "_".join("(" + "_".join(["[^_]+"] * (count + 1)) + ")" for count in counts)
    parts = ids.str.extract(f"^{pattern}$")
    parts.columns = pd.Index(names)
    return None if parts.isna().any(axis=None) else parts.assign(**{str(ids.name): ids})


def _with_beside(rows: pd.DataFrame, names: list[str], tables: list[Source], kind: str) -> pd.DataFrame:
    """Add the columns of each table of this kind that has one row per value of some parts."""
    ends = sorted({match[1] for name in names if (match := re.fullmatch(r".*?(_?\d)", name))})
    for table in tables:
        if kind not in table.name or not re.search(r"[a-z]{3}", table.name.replace(kind, "").partition(".")[0]):
            continue
        columns = table.columns()
        for end in ends or [""]:
            keys = {name: name.removesuffix(end) for name in names if name.removesuffix(end) in columns}
            keys |= {name: name for name in names if name in columns}
            if not keys or (end and not any(name != own for name, own in keys.items())):
                continue
            beside = table.read()
            if beside.duplicated(list(keys.values())).any():
                continue
            own = beside.rename(columns={c: f"{c} of {end}" for c in beside if c not in keys.values()})
            own = own.rename(columns={column: name for name, column in keys.items()})
            rows = rows.merge(own, on=list(keys), how="left")
    return _with_differences(rows, ends)


def _with_differences(rows: pd.DataFrame, ends: list[str]) -> pd.DataFrame:
    """If two of the parts are of one kind, add their differences in each column, and their distance in space."""
    if len(ends) != 2:
        return rows
    first, second = (f" of {end}" for end in ends)
    made: dict[str, object] = {}
    space = np.zeros(len(rows))
    for name in [c.removesuffix(first) for c in rows if c.endswith(first)]:
        if name + second not in rows or f"{name} apart" in rows:
            continue
        one, two = rows[name + first], rows[name + second]
        numbers = [to_numbers(own) for own in (one, two)]
        if numbers[0].notna().mean() < LEAST_KNOWN:
            made[f"{name} alike"] = (one == two).astype(int).where(two.notna())
            continue
        made[f"{name} apart"] = (numbers[0] - numbers[1]).abs()
        if re.match(r"[xyz]([_ ]|$)", name, re.I):
            space = space + (numbers[0] - numbers[1]) ** 2
    return rows.assign(**made, **({"apart in space": np.sqrt(space)} if np.any(space) else {}))


def _without_names(rows: pd.DataFrame, names: list[str], train: pd.DataFrame, test: pd.DataFrame) -> pd.DataFrame:
    """Remove the parts of ids whose values are new in the test, such as the names of games."""
    new = [name for name in names if test[name].isin(set(train[name])).mean() < LEAST_KNOWN]
    if len(new) == len(names) and rows.shape[1] == len(names) + 1:
        raise CannotSolve("the values of all parts of the ids are new in the test, and no table describes them")
    return rows.drop(columns=new)
