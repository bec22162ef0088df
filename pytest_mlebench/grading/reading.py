"""Reading tables of millions of numbers with little more memory than they take.

pandas parses a file in pieces and puts these together when it has read all; the pieces' memory seldom goes back to the
kernel, so the table takes twice its size or more.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

MANY = 1 << 20
"""Rows from which on a table is read piece by piece."""
_PIECE = 1 << 17
_FIRST = 1000
"""Rows that tell most files of texts from those of numbers."""
_BLOCK = 1 << 18
_KEPT = 16 << 20
"""Bytes: once a block of that size was given back, untouched, glibc keeps up to twice as many for the next piece.

Otherwise the kernel takes back each piece's memory and clears it again for the next one.
"""


def read_table(file: IO[bytes], rows: int, **options: Any) -> pd.DataFrame:
    """The table that pandas' ``read_csv`` makes of a file that it has from the start, of at most ``rows`` rows.

    ``options`` are those of ``read_csv``; raises as it does.
    """
    if rows >= MANY and not options:
        table = _numbers(file, rows)
        file.seek(0)
        if table is not None:
            return table
    whole: pd.DataFrame = pd.read_csv(file, **options)
    return whole


def read_answers(path: Path, **options: Any) -> pd.DataFrame:
    """``read_table`` of a file that is trusted."""
    with path.open("rb") as file:
        rows = sum(block.count(b"\n") for block in iter(lambda: file.read(_BLOCK), b"")) + 1
        file.seek(0)
        return read_table(file, rows, **options)


def _numbers(file: IO[bytes], rows: int) -> pd.DataFrame | None:
    """None where pandas would find anything but 64-bit integers or floats throughout each column, or an error.

    Where every piece of a column has one of these types, pandas comes to the same for the whole column: it reads in
    pieces itself.
    """
    columns: list[NDArray[Any]] = []
    end = 0
    with suppress(ValueError, OverflowError):  # pandas' own errors are ValueErrors; reading all at once raises it again
        first = pd.read_csv(file, nrows=_FIRST)
        if not _is_of_numbers(first):
            return None
        file.seek(0)
        np.empty(_KEPT, dtype=np.uint8)
        with pd.read_csv(file, chunksize=_PIECE) as pieces:
            for piece in pieces:
                start, end = end, end + len(piece)
                if end > rows or not _is_of_numbers(piece):
                    return None
                columns = columns or [np.empty(rows, dtype=dtype) for dtype in piece.dtypes]
                if [*piece.dtypes] != [values.dtype for values in columns]:
                    return None
                for place, values in enumerate(columns):
                    values[start:end] = piece.iloc[:, place]
        parts = dict(enumerate(values[:end] for values in columns))
        return pd.DataFrame(parts, copy=False).set_axis(first.columns, axis=1)
    return None


def _is_of_numbers(table: pd.DataFrame) -> bool:
    is_plain = isinstance(table.index, pd.RangeIndex)  # fields beyond the header's would be row names
    return is_plain and all(dtype in (np.int64, np.float64) for dtype in table.dtypes)
