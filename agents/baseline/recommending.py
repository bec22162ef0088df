"""Recommends each customer's previous items again, recent ones first, then the items that are popular now."""

from __future__ import annotations

import logging
from collections import Counter

import numpy as np
import pandas as pd
from tables import Source
from task import CannotSolve

MIN_ITEMS = 2
LEAST_KNOWN = 0.2
"""Minimum share of the submission's ids that must have previous items."""
HALF_LIVES = (0.01, 0.03, 0.1, 0.3, 3.0)
"""Candidate half-lives of a transaction's weight, as shares of the whole period."""
LAST = 0.07
"""Share of the period, at its end, that is held out to choose the half-life."""
RECENT = 0.1

log = logging.getLogger("baseline")


def recommendations(sample: pd.DataFrame, tables: list[Source]) -> pd.DataFrame | None:
    """Return the sample submission with recommendations; None if it does not ask for lists of items.

    It asks for them if each of its rows has an id and a list of items, and a table has a row per item of an id.
    """
    if sample.shape[1] != 2 or sample.iloc[:, 1].str.split().str.len().median() < MIN_ITEMS:
        return None
    id, answer = sample.columns
    lists = sample[answer].head(1000).str.split()
    listed = {_plain(item) for own in lists for item in own}
    count = int(lists.str.len().max())
    for table in tables:
        if id not in table.columns():
            continue
        rows = table.read()
        if sample[id].isin(rows[id]).mean() < LEAST_KNOWN:
            continue
        for column in rows.columns.drop(id):
            if rows[id].duplicated().any() and len(listed & set(map(_plain, rows[column].unique()))) > len(listed) / 2:
                log.info("%s has the items of each %s in %s", table.name, id, column)
                found = _recommended(rows, id, column, sample[id], count)
                return sample.assign(**{answer: [" ".join(own) for own in found]})
    return None


def _plain(item: str) -> str:
    """Return an item without leading zeros, which are lost in tables that were once read as numbers."""
    return item.lstrip("0")


def _times(rows: pd.DataFrame) -> np.ndarray:
    """Return the time of each row, from 0 to 1; the order of the rows if no column has dates."""
    for column in rows:
        if rows[column].head(100).str.contains(r"\d[-/:T]\d", regex=True).all():
            moments = pd.to_datetime(rows[column], errors="coerce")
            if moments.notna().all() and moments.nunique() > 1:
                days = (moments - moments.min()).dt.total_seconds().to_numpy()
                return np.asarray(days / days.max())
    return np.linspace(0, 1, len(rows))


def _recommended(rows: pd.DataFrame, id: str, item: str, wanted: pd.Series, count: int) -> list[list[str]]:
    table = pd.DataFrame({"id": rows[id], "item": rows[item], "time": _times(rows)})
    past, last = table[table.time < 1 - LAST], table[table.time >= 1 - LAST]
    truth = last.groupby("id")["item"].agg(set)
    if past.empty or truth.empty:
        raise CannotSolve("there are no transactions in the held-out period, or none before it")
    best = (-1.0, HALF_LIVES[-1])
    for half_life in HALF_LIVES:
        found = _ranked(past, 1 - LAST, list(truth.index), count, half_life)
        score = np.mean([_precision(own, items) for own, items in zip(found, truth, strict=True)])
        log.info("half-life of %.2f of the period: average precision %.4f on held-out transactions", half_life, score)
        best = max(best, (float(score), half_life))
    return _ranked(table, 1.0, list(wanted), count, best[1])


def _ranked(table: pd.DataFrame, now: float, ids: list[str], count: int, half_life: float) -> list[list[str]]:
    weights = 0.5 ** ((now - table.time) / half_life)
    sums = weights.groupby([table.id, table.item]).sum()
    own: dict[str, list[str]] = {}
    for customer, item in sums.sort_values(ascending=False, kind="stable").index:
        own.setdefault(customer, []).append(item)
    usual = [item for item, _ in Counter(table.item[table.time >= now - RECENT]).most_common(count)]
    return [list(dict.fromkeys([*own.get(customer, []), *usual]))[:count] for customer in ids]


def _precision(found: list[str], true: set[str]) -> float:
    """Return the average precision of a ranking."""
    hits = np.array([item in true for item in found])
    return float((hits * hits.cumsum() / np.arange(1, len(hits) + 1)).sum() / min(len(true), len(hits)))
