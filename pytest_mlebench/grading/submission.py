"""Reading a submission: an untrusted file that may be anything, of any size."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from pytest_mlebench.defaults import MAX_SUBMISSION_BYTES
from pytest_mlebench.errors import InvalidSubmission, reason

if TYPE_CHECKING:
    import pandas as pd

_MAGIC = {b"\x1f\x8b": "gzip data", b"PK\3\4": "a zip archive", b"PAR1": "a Parquet file", b"\x89HDF": "an HDF5 file"}


@contextmanager
def open_submission(path: Path, max_bytes: int = MAX_SUBMISSION_BYTES) -> Iterator[IO[bytes]]:
    """Open a submission for reading, as what it is when it is opened: a regular file of a bounded size.

    Raises InvalidSubmission for a link, a pipe, a folder or a device, and for a file that is too large.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise InvalidSubmission(f"{path.name} is a symbolic link; a regular file was expected") from error
        raise InvalidSubmission(f"{path.name} cannot be read: {error.strerror}") from error
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):  # before it is opened as a file, which a folder cannot be
        os.close(descriptor)
        raise InvalidSubmission(f"{path.name} is not a regular file")
    with os.fdopen(descriptor, "rb") as file:
        if status.st_size > max_bytes:
            raise InvalidSubmission(f"{path.name} has {status.st_size:,} bytes; at most {max_bytes:,} are read")
        yield file


def _what_it_is(path: Path) -> str:
    """What a file is by its first bytes that often stands in place of a CSV file; empty if it is none of these."""
    with suppress(OSError), path.open("rb") as file:
        head = file.read(4)
        return next((f"it is {name}" for magic, name in _MAGIC.items() if head.startswith(magic)), "")
    return ""


def read_submission(path: Path, max_bytes: int = MAX_SUBMISSION_BYTES, **options: Any) -> pd.DataFrame:
    """Read a submission as pandas does, floats parsed round-trip; an empty file is a table without columns.

    ``options`` are those of pandas' ``read_csv``.
    Raises InvalidSubmission with the reason for what cannot be read.
    """
    import pandas as pd

    from pytest_mlebench.grading.reading import read_table
    from pytest_mlebench.grading.tokens import require_bounded

    try:
        with open_submission(path, max_bytes) as file:
            rows, _, _ = require_bounded(file)
            table = read_table(file, rows, **options)
    except pd.errors.EmptyDataError:
        return pd.DataFrame()
    except OSError as error:
        raise InvalidSubmission(f"{path.name} cannot be read: {error.strerror}") from error
    except (ValueError, OverflowError, pd.errors.ParserError) as error:
        if "out of memory" in str(error):  # as pandas' parser says it
            raise MemoryError from error
        raise InvalidSubmission(f"not a readable CSV file: {_what_it_is(path) or reason(error)}") from error
    return table.set_axis(pd.RangeIndex(len(table)))  # a field more in each row than in the header is row names
