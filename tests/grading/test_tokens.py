"""Counting fields and rows before parsing, and rejecting tables far larger than their files."""

from __future__ import annotations

import csv
import io

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pytest_mlebench.errors import InvalidSubmission
from pytest_mlebench.grading.scorer import require_bounded


def count(content: bytes, **size: int) -> tuple[int, int, int]:
    table = require_bounded(io.BytesIO(content), **size)
    return table.rows, table.fields, table.width


@given(st.text(alphabet='a,"\n\r \0é', max_size=30), st.integers(1, 9))
@example('a"b,"c,d"\n', 100)
@example('"",""\n""', 2)
def test_fields_and_rows_are_counted_as_by_a_parser(text: str, block: int) -> None:
    rows = [row for row in csv.reader(io.StringIO(text, newline="")) if row]
    expected = len(rows), sum(map(len, rows)), max(map(len, rows), default=0)
    assert count(text.encode(), size=block) == expected


def test_the_file_position_is_reset_to_the_start() -> None:
    for content in (b"a,b\n1,2\n", b'a,b\n1,x"y\n'):
        file = io.BytesIO(content)
        require_bounded(file)
        assert file.read() == content


def test_a_byte_order_mark_is_not_part_of_the_first_field() -> None:
    assert count(b'\xef\xbb\xbf"a\n,b",c\n1,2\n') == (2, 4, 2)


MANY = b"," * 10_000
REFUSED = {
    "header": b"id" + MANY + b"\n1\n",
    "empty lines before the header": b"\n" * 100 + b"id" + MANY + b"\n1\n",
    "first row": b"id,p\n1" + MANY + b"\n",
    "third row": b"id,p\n1,2\n\n1" + MANY + b"\n",
    "row without an end": b"id,p\n1" + MANY,
    "quoted line end in the header": b'"a\nb",p' + MANY + b"\n1\n",
    "quoted line ends": b'id,p\n"a\nb","c\n\nd"' + MANY + b"\n",
    "stray quote before": b'id,p\na"b,2\n1' + MANY + b"\n",
    "stray quotes around": b'id,p\nx"' + MANY + b'"\n',
    "repeated names": b",".join([b"x"] * 10_001) + b"\n1\n",
    "carriage returns": b"id,p\r1" + MANY + b"\r",
    "doubled quotes": b'id,p\n"a""b"' + MANY + b"\n",
}


@pytest.mark.parametrize("content", REFUSED.values(), ids=REFUSED.keys())
def test_a_row_with_very_many_fields_is_rejected_anywhere(content: bytes) -> None:
    with pytest.raises(InvalidSubmission, match="more than 10,000 columns"):
        count(content)


@pytest.mark.parametrize(
    "content",
    [
        b'id,p\n1,"' + MANY + b'"\n',
        b'id,p\n1,"a\n' + MANY + b'""' + MANY + b'"\n',
        b'id,p\nx"y,"' + MANY + b'"\n',
        b"\r".join([b"id,p", *[b"1,2"] * 1_000_000]),
        b"id,p\n" + b"1,2\n" * 1_000_000,
    ],
    ids=["text", "long text", "text after a stray quote", "rows ended by carriage returns", "rows"],
)
def test_commas_in_texts_and_in_many_rows_are_not_columns(content: bytes) -> None:
    assert count(content)[2] == 2


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
@pytest.mark.parametrize("row", [b"1", b'""', b'"1"', b'x"'])
def test_rows_that_are_far_too_short_are_rejected(end: bytes, row: bytes) -> None:
    names = b",".join(b"c%d" % number for number in range(1000))
    assert count(names + end + (row + end) * 9_000)[2] == 1000
    with pytest.raises(InvalidSubmission, match="most rows have far fewer fields than the longest, which has 1,000"):
        count(names + end + (row + end) * 11_000)


def test_a_header_of_a_megabyte_is_rejected() -> None:
    for name in (b"x" * (1 << 20), b'"' + b"\n" * (1 << 20) + b'"'):
        with pytest.raises(InvalidSubmission, match="the first line is longer than 1,048,576 bytes"):
            count(name + b"y")
    assert count(b"id\n" + b"x" * (2 << 20)) == (2, 2, 1)
