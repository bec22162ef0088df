"""Tables too large for memory, stored as CSV records on disk, from which they are written in a different order."""

from __future__ import annotations

import mmap
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

import numpy as np
import pandas as pd
from numpy.typing import NDArray

_AT_ONCE = 10_000


class Records:
    """CSV records in a scratch file, numbered from 0 as they were added (see ``scratch_records``)."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._starts = array("q", [0])

    def __len__(self) -> int:
        return len(self._starts) - 1

    def add(self, rows: pd.DataFrame) -> None:
        """Add a table's rows, as pandas' ``to_csv`` writes them without the index."""
        rows.to_csv(self, index=False, header=False)  # type: ignore[call-overload]

    def write(self, record: str) -> None:
        """Add one record with its line end; Python's ``csv.writer`` calls it for each row."""
        self._starts.append(self._starts[-1] + self._file.write(record.encode()))

    def write_csv(self, path: Path, columns: list[str], order: NDArray[np.intp]) -> None:
        """Write a CSV file of the records with these numbers, in this order."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file.flush()
        with path.open("xb") as target:
            target.write(pd.DataFrame(columns=columns).to_csv(index=False).encode())
            if len(order) == 0:
                return
            with mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ) as scratch:
                records = (scratch[self._starts[number] : self._starts[number + 1]] for number in order.tolist())
                while block := b"".join(islice(records, _AT_ONCE)):
                    target.write(block)


@contextmanager
def scratch_records(folder: Path) -> Iterator[Records]:
    """Open records in a temporary file in ``folder``, which needs as much free space as the table."""
    with TemporaryFile(dir=folder) as file:
        yield Records(file)
