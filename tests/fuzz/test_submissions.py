"""Any submitted file is read in time or rejected with a reason."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pytest_mlebench.authoring import checks, columns, ids
from pytest_mlebench.authoring.rle import decode_rle, mask_from_rle, pixels, union
from pytest_mlebench.errors import InvalidSubmission
from pytest_mlebench.grading.scorer import check_like_sample, read_submission
from tests.fuzz.bounded import fuzzing, limited_time, run_limited

pytestmark = pytest.mark.full

NUMBERS = st.sampled_from(
    [
        *("0", "1", "-1", "0.5", "1e5", "1e999", "-1e999", "nan", "NaN", "inf", "-inf", "NA", "", " ", "True", "false"),
        *("9223372036854775807", "9223372036854775808", "18446744073709551616", "9" * 400, "0." + "0" * 400 + "1"),
        *(
            "1_000",
            "0x10",
            "١",
            "1,5",
            "1e",
            "--1",
            "+",
            "1" * 5000,
            "2020-01-01",
            "[1, 2]",
            "{}",
            "None",
            "\x00",
            "\ufeff",
        ),
    ]
)
CELLS = st.one_of(NUMBERS, st.text(max_size=20), st.lists(NUMBERS, max_size=6).map(" ".join))
PIECES = st.one_of(
    st.sampled_from(
        [b",", b"\n", b"\r", b"\r\n", b'"', b'""', b"\0", b"\xff\xfe", b"\xef\xbb\xbf", b";", b"\t", b"id"]
    ),
    CELLS.map(lambda text: text.encode("utf-8", "surrogatepass")),
    st.binary(max_size=30),
    st.tuples(st.sampled_from([b",", b"\n", b'"', b"1,", b"a\n", b",\n", b'"\n', b" "]), st.integers(1, 200_000)).map(
        lambda pair: pair[0] * pair[1]
    ),
)
FILES = st.lists(PIECES, max_size=40).map(b"".join)
TEXTS = st.one_of(
    st.lists(st.one_of(NUMBERS, st.sampled_from([" ", "  ", "\t", ";", "\u3000", "cat"])), max_size=30).map(" ".join),
    st.text(max_size=200),
    st.integers(1, 300_000).map(lambda number: "1 1 " * number),
)


def table_of(data: bytes, folder: Path) -> pd.DataFrame:
    path = folder / "submission.csv"
    path.write_bytes(data)
    return read_submission(path, 1 << 26)


def test_any_bytes_are_a_table_or_rejected_with_a_reason(tmp_path: Path) -> None:
    @fuzzing
    @example(b"a,b\n" + b'"' * 99_999)
    @example(b"\n" * 500_000 + b"a,a,a\n1\n")
    @given(FILES)
    def fuzz(data: bytes) -> None:
        with limited_time(), suppress(InvalidSubmission):
            assert isinstance(table_of(data, tmp_path), pd.DataFrame)

    run_limited(fuzz)


ANSWERS = pd.DataFrame({"id": [1, 2, 3], "name": ["a", "b", "c"], "x": [0.5, 0.25, 0.25], "y": [1, 0, 1]})
READERS: dict[str, Callable[[pd.DataFrame], Any]] = {
    "predictions": lambda table: columns.predictions(table, ANSWERS, "x", on="id", between=(0, 1)),
    "several predictions": lambda table: columns.predictions(table, ANSWERS, ["x", "y"], on=["id", "name"]),
    "class labels": lambda table: columns.class_labels(table, ANSWERS, "y", on="id"),
    "class labels, cut": lambda table: columns.class_labels(table, ANSWERS, "y", on="name", truncate=True),
    "probabilities": lambda table: columns.class_probabilities(table, ANSWERS, ["x", "y"], on="id"),
    "sets": lambda table: columns.label_sets(table, "name"),
    "ranked": lambda table: columns.ranked_labels(table, "name", 3),
    "texts": lambda table: columns.texts(table, "name"),
    "records": lambda table: columns.parse_texts(
        table, "name", lambda text: columns.labelled_records(text, 3), expected="records"
    ),
    "masks": lambda table: columns.parse_texts(
        table, "name", lambda text: mask_from_rle(text, (30, 20)), expected="runs", missing=""
    ),
    "the same ids": lambda table: ids.require_same_ids(table, ANSWERS, ["id", "name"]),
    "positions": lambda table: ids.answer_positions(table, ANSWERS, "id"),
    "like the sample": lambda table: check_like_sample(table, ANSWERS),
    "no missing value": lambda table: checks.require_not_missing(table, ["id", "x"]),
}


def test_any_cells_fit_a_column_or_are_rejected_with_a_reason(tmp_path: Path) -> None:
    rows = st.lists(st.tuples(*[CELLS] * 4), min_size=0, max_size=6)
    names = st.sampled_from(["id,name,x,y", "y,x,name,id", "id,id,name,x,y", "id,name,x", "id,name,x,y,id.1", ",,,"])

    @fuzzing
    @given(names, rows, st.sampled_from(list(READERS)), st.booleans())
    def fuzz(header: str, cells: list[tuple[str, ...]], reader: str, known_ids: bool) -> None:
        lines = [header]
        for number, row in enumerate(cells, 1):
            values = [str(number), "abc"[number % 3], *row[2:]] if known_ids else row
            lines.append(",".join('"' + value.replace('"', '""') + '"' if "," in value else value for value in values))
        with limited_time(), suppress(InvalidSubmission):
            table = table_of("\n".join(lines).encode("utf-8", "surrogatepass"), tmp_path)
            for column in ("id", "name", "x", "y"):
                checks.require_columns(table, [column])
            READERS[reader](table)

    run_limited(fuzz)


def test_any_text_is_parsed_as_records_or_a_value_error() -> None:
    @fuzzing
    @given(TEXTS, st.integers(2, 6), st.sampled_from([0, -1]), st.sampled_from([None, " ", ";"]))
    def fuzz(text: str, width: int, label: int, separator: str | None) -> None:
        with limited_time(), suppress(ValueError):
            labels, numbers = columns.labelled_records(text, width, label=label, separator=separator)
            assert numbers.shape == (len(labels), width - 1)

    run_limited(fuzz)


def test_any_text_is_parsed_as_runs_or_a_value_error() -> None:
    @fuzzing
    @example("1 9223372036854775807", 1000)
    @example("9223372036854775807 9223372036854775807", 1000)
    @given(TEXTS, st.integers(0, 3_000_000))
    def fuzz(text: str, size: int) -> None:
        with limited_time(), suppress(ValueError):
            runs = decode_rle(text, size)
            marked = pixels(runs)
            assert len(marked) <= size and (marked >= 0).all() and (marked < size).all()
            assert len(np.unique(marked)) == len(marked) == len(pixels(union(runs)))

    run_limited(fuzz)
