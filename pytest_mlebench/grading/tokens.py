"""What pandas' parser will make of a CSV file, counted before it is parsed.

A file that is small can be a table that is large: rows that are too short are filled up with missing values, a quoted
line's end does not end a row, and a row may be as long as the file. Fields and rows are counted here as pandas'
tokenizer finds them, at several hundred megabytes per second.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import IO

import numpy as np
from numpy.typing import NDArray

from pytest_mlebench.errors import InvalidSubmission

MAX_COLUMNS = 10_000
MAX_HEADER_BYTES = 1 << 20
MAX_FILLED = 10_000_000
"""Fields that rows lack, in all: filled up, each takes as much memory as one that is there."""
_BLOCK = 1 << 16
_COMMA, _QUOTE, _LINE_FEED, _CARRIAGE_RETURN = b',"\n\r'
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# Quotes count at the start of a field alone; what follows the closing one is text again.
_QUOTED_FIELD = re.compile(rb'(?:(?<=[,\r\n])|\A)"(?:[^"]++|"")*+"?')

_MAY_PRECEDE_QUOTE = np.zeros(256, dtype=bool)
_MAY_PRECEDE_QUOTE[[_COMMA, _QUOTE, _LINE_FEED, _CARRIAGE_RETURN]] = True


def require_bounded(file: IO[bytes]) -> tuple[int, int, int]:
    """The number of rows and fields in a CSV file, and the most fields in a row; leaves the file at its start.

    Raises InvalidSubmission where the table would be out of proportion to the file.
    """
    try:
        table = _count(_blocks(file))
    except _StrayQuoteError:  # rare, and slower: what stands in quotes is taken out
        file.seek(0)
        text = _QUOTED_FIELD.sub(b"x", file.read().removeprefix(_BYTE_ORDER_MARK))
        table = _count((text[start : start + _BLOCK] for start in range(0, len(text), _BLOCK)), quotes=False)
    file.seek(0)
    return table.rows, table.fields, table.width


class _StrayQuoteError(Exception):
    """A quote stands within a field that does not begin with one: quotes do not come in pairs."""


@dataclass
class _Table:
    rows: int = 0
    fields: int = 0
    width: int = 0
    row_fields: int = 1
    """Of the row that has not ended yet, as ``row_bytes``."""
    row_bytes: int = 0

    def add(self, ends: NDArray[np.intp], is_row: NDArray[np.bool_], size: int) -> None:
        """Add a block of ``size`` bytes: where its fields end, and which of these ends are those of a row."""
        if self._is_regular(ends, is_row, size):
            self.rows += len(ends) // self.width
            self.fields += len(ends)
            return
        rows = np.flatnonzero(is_row)
        fields = np.diff(rows, prepend=-1)
        lengths = np.diff(ends[rows], prepend=-1) - 1
        if len(rows):
            fields[0] += self.row_fields - 1
            lengths[0] += self.row_bytes
            self.row_fields = len(ends) - int(rows[-1])
            self.row_bytes = size - 1 - int(ends[rows[-1]])
        else:
            self.row_fields += len(ends)
            self.row_bytes += size
        is_filled = lengths > 0  # an empty line is no row
        fields, lengths = fields[is_filled], lengths[is_filled]
        if not self.rows and (lengths[0] if len(lengths) else self.row_bytes) > MAX_HEADER_BYTES:
            raise InvalidSubmission(f"the first line is longer than {MAX_HEADER_BYTES:,} bytes; is this a CSV file?")
        self.rows += len(fields)
        self.fields += int(fields.sum())
        self.width = max(self.width, int(fields.max(initial=0)))
        if max(self.width, self.row_fields) > MAX_COLUMNS:
            raise InvalidSubmission(f"the file has more than {MAX_COLUMNS:,} columns")
        if self.rows * self.width - self.fields > MAX_FILLED:
            raise InvalidSubmission(f"most rows have far fewer fields than the longest, which has {self.width:,}")

    def _is_regular(self, ends: NDArray[np.intp], is_row: NDArray[np.bool_], size: int) -> bool:
        """Whether the block is whole rows of as many fields as the widest so far: most are, and soon counted."""
        width = self.width
        if width < 2 or self.row_bytes or not len(ends) or len(ends) % width or int(ends[-1]) != size - 1:
            return False
        return bool(is_row[width - 1 :: width].all()) and int(np.count_nonzero(is_row)) * width == len(ends)


def _count(blocks: Iterable[bytes], *, quotes: bool = True) -> _Table:
    table = _Table()
    is_quoted, last = False, _LINE_FEED
    for block in blocks:
        codes = np.frombuffer(block, dtype=np.uint8)
        is_end = (codes == _COMMA) | (codes == _LINE_FEED)
        if b"\r" in block:
            is_end |= codes == _CARRIAGE_RETURN
        ends = np.flatnonzero(is_end)
        if quotes and (is_quoted or b'"' in block):
            marks = np.flatnonzero(codes == _QUOTE)
            opening = marks[int(is_quoted) :: 2]
            before = np.concatenate([[last], codes])[opening]
            if not _MAY_PRECEDE_QUOTE[before].all():
                raise _StrayQuoteError
            inside = (np.searchsorted(marks, ends) + is_quoted) % 2 == 1
            ends = ends[~inside]
            is_quoted = bool((len(marks) + is_quoted) % 2)
        table.add(ends, codes[ends] != _COMMA, len(block))
        last = codes[-1]
    if table.row_bytes:
        table.add(np.zeros(1, dtype=np.intp), np.ones(1, dtype=bool), 1)
    return table


def _blocks(file: IO[bytes]) -> Iterator[bytes]:
    """The file in blocks that end with a line, where that is not longer than a block."""
    block = file.read(_BLOCK).removeprefix(_BYTE_ORDER_MARK)
    while block:
        end = block.rfind(b"\n") + 1 or len(block)
        yield block[:end]
        block = block[end:] + file.read(_BLOCK - (len(block) - end))
