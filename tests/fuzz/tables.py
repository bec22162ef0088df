"""Unusual tables that an agent might submit, derived from a good one."""

from __future__ import annotations

import csv
import io
from itertools import cycle, islice

import pandas as pd
from hypothesis import strategies as st

from tests.fuzz.test_submissions import CELLS

CHANGES = st.lists(
    st.tuples(
        st.integers(0, 9),  # the column
        st.sampled_from(["one", "one more", "some", "all", "of another column"]),  # the fields
        st.lists(CELLS, min_size=1, max_size=3),
    ),
    min_size=1,
    max_size=3,
)
ROWS = st.sampled_from(["as they are"] * 4 + ["none", "one", "doubled", "reversed"])
NAMES = st.sampled_from(["as they are"] * 6 + ["one less", "one twice", "one more", "others"])


def changed(good: pd.DataFrame, changes: list[tuple[int, str, list[str]]], rows: str, names: str) -> str:
    columns: dict[str, list[str]] = {str(name): good[name].tolist() for name in good}
    for number, fields, values in changes:
        name = list(columns)[number % len(columns)]
        old = columns[name]
        new = list(islice(cycle(values), len(old)))
        match fields:
            case "all":
                columns[name] = new
            case "some":
                columns[name] = [a if k % 2 else b for k, (a, b) in enumerate(zip(old, new, strict=True))]
            case "of another column":
                columns[name] = columns[next(iter(columns))]
            case "one":
                columns[name] = [*values[:1], *old[1:]]
            case _:
                columns[name] = [f"{old[0]} {values[0]}", *old[1:]]
    lines = list(zip(*columns.values(), strict=True))
    lines = {"none": [], "one": lines[:1], "doubled": lines * 2, "reversed": lines[::-1]}.get(rows, lines)
    header = list(columns)
    header = {
        "one less": header[1:],
        "one twice": [*header[:-1], header[0]],
        "one more": [*header, "more"],
        "others": [f"{name}_" for name in header],
    }.get(names, header)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(lines)
    return text.getvalue()
