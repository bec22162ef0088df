"""Pick lines of text files that are larger than memory."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from pytest_mlebench.errors import DataError

_BLOCK_BYTES = 1 << 24
_PART_BYTES = 1 << 27


def pick_lines(
    source: Path, rows: NDArray[np.integer[Any]], target: Path, *, scratch: Path, part_bytes: int = _PART_BYTES
) -> None:
    """Write the header of a text file and the lines with these numbers, in this order, to another file.

    ``rows`` has distinct numbers, counted from 0 at the line below the header. The lines are first distributed to
    parts of the target, of about ``part_bytes`` bytes, in the folder ``scratch``, so that each part fits in memory.
    Raises DataError if a number is beyond the last line.
    """
    with tempfile.TemporaryDirectory(dir=scratch) as folder, source.open("rb") as file:
        header = file.readline()
        parts = np.array_split(rows, math.ceil((source.stat().st_size + 1) / part_bytes))
        paths = [Path(folder) / str(k) for k in range(len(parts))]
        _deal(file, parts, paths)
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("xb") as out:
            out.write(header)
            for part, path in zip(parts, paths, strict=True):
                lines = _lines(path.read_bytes())
                if len(lines) != len(part):
                    raise DataError(f"{source} has no line {rows.max() + 2}")
                out.write(_joined(lines, np.argsort(np.argsort(part))))
                path.unlink()


def _deal(file: IO[bytes], parts: list[NDArray[np.integer[Any]]], paths: list[Path]) -> None:
    """Append each selected line to the file of its part, in the order of the source."""
    nowhere = len(parts)
    part_of = np.full(max((part.max() for part in parts if len(part)), default=-1) + 1, nowhere, dtype=np.uint16)
    for k, part in enumerate(parts):
        part_of[part] = k
        paths[k].touch()
    first = 0
    for block in _blocks(file):
        lines = _lines(block)
        belongs = part_of[first : first + len(lines)]
        for k in np.unique(belongs[belongs != nowhere]):
            with paths[k].open("ab") as out:
                out.write(_joined(lines, np.flatnonzero(belongs == k)))
        first += len(lines)


def _blocks(file: IO[bytes]) -> Iterator[bytes]:
    """Yield the rest of a file in blocks of whole lines, which all end with a line feed."""
    while block := file.read(_BLOCK_BYTES) + file.readline():
        yield block if block.endswith(b"\n") else block + b"\n"


def _lines(block: bytes) -> list[bytes]:
    """Split a block at line feeds, but not at the other line breaks of ``splitlines``. It ends with a line feed."""
    return block.split(b"\n")[:-1]


def _joined(lines: list[bytes], places: NDArray[np.integer[Any]]) -> bytes:
    """Return the lines at these positions, each with a line feed."""
    return b"\n".join([*(lines[place] for place in places.tolist()), b""])
