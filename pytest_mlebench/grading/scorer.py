"""Scores submissions and checks their format in this process: for the grading process, and for trusted files.

Tables of millions of numbers are read in pieces, which takes little more memory than the table. pandas also parses in
pieces, but joins them at the end. Their memory seldom returns to the kernel, so a table takes twice its size or more.
"""

from __future__ import annotations

import errno
import math
import os
import re
import reprlib
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pytest_mlebench.authoring.archives import ArchiveError, archive_errors
from pytest_mlebench.authoring.checks import require_columns, require_row_count
from pytest_mlebench.authoring.columns import numeric
from pytest_mlebench.authoring.ids import alignment
from pytest_mlebench.authoring.resampling import Certainty, RowScores, as_row_scores, certainty
from pytest_mlebench.authoring.tables import read_csv
from pytest_mlebench.catalog.competition import Competition, command
from pytest_mlebench.defaults import MAX_SUBMISSION_BYTES
from pytest_mlebench.errors import CompetitionError, DataError, GraderDefect, InvalidSubmission, reason
from pytest_mlebench.io.files import REGULAR

NOTHING_OPEN: Mapping[Path, int] = MappingProxyType({})


class Pieces(NamedTuple):
    """Tables of at least ``many`` rows are read in pieces of ``piece`` rows.

    The ``first`` rows usually show whether a file has columns of text.
    """

    many: int = 1 << 20
    piece: int = 1 << 17
    first: int = 1000


_PIECES = Pieces()
_BLOCK = 1 << 18
_KEPT = 16 << 20
"""Bytes. After a block of this size is allocated and freed, glibc keeps up to twice as much memory for reuse.

Otherwise the kernel reclaims each piece's memory and clears it again for the next piece.
"""


def read_table(file: IO[bytes], rows: int, size: Pieces = _PIECES, **options: Any) -> pd.DataFrame:
    """Return the table that pandas' ``read_csv`` reads from a file of at most ``rows`` rows, from its start.

    ``options`` are those of ``read_csv``. Raises as it does.
    """
    if rows >= size.many and not options:
        table = _numbers(file, rows, size)
        file.seek(0)
        if table is not None:
            return table
    return read_csv(file, **options)


def read_answers(path: Path, **options: Any) -> pd.DataFrame:
    """Read a trusted file with ``read_table``."""
    with path.open("rb") as file:
        rows = sum(block.count(b"\n") for block in iter(lambda: file.read(_BLOCK), b"")) + 1
        file.seek(0)
        return read_table(file, rows, **options)


def _numbers(file: IO[bytes], rows: int, size: Pieces) -> pd.DataFrame | None:
    """Read a table of numbers in pieces. Returns None if a column is not all 64-bit integers or floats, or on errors.

    If every piece of a column has one of these types, so has the column that pandas reads at once: it also reads in
    pieces.
    """
    columns: list[NDArray[Any]] = []
    end = 0
    with suppress(ValueError, OverflowError):  # such as pandas' errors; reading all at once raises them again
        first = pd.read_csv(file, nrows=size.first)
        if not _is_numeric(first):
            return None
        file.seek(0)
        np.empty(_KEPT, dtype=np.uint8)
        with pd.read_csv(file, chunksize=size.piece) as pieces:
            for piece in pieces:
                start, end = end, end + len(piece)
                if end > rows or not _is_numeric(piece):
                    return None
                columns = columns or [np.empty(rows, dtype=dtype) for dtype in piece.dtypes]
                if [*piece.dtypes] != [values.dtype for values in columns]:
                    return None
                for index, values in enumerate(columns):
                    values[start:end] = piece.iloc[:, index]
        parts = dict(enumerate(values[:end] for values in columns))
        return pd.DataFrame(parts, copy=False).set_axis(first.columns, axis=1)
    return None


def _is_numeric(table: pd.DataFrame) -> bool:
    is_plain = isinstance(table.index, pd.RangeIndex)  # else pandas took additional fields as row names
    return is_plain and all(dtype in (np.int64, np.float64) for dtype in table.dtypes)


MAX_COLUMNS = 10_000
MAX_HEADER_BYTES = 1 << 20
MAX_FILLED = 10_000_000
"""Maximum number of missing fields in a table: once filled in, they take as much memory as others."""
_TEXT_BLOCK = 1 << 16
_COMMA, _QUOTE, _LINE_FEED, _CARRIAGE_RETURN = b',"\n\r'
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# Quotes count only at the start of a field; after the closing quote, they are ordinary text.
_QUOTED_FIELD = re.compile(rb'(?:(?<=[,\r\n])|\A)"(?:[^"]++|"")*+"?')

_MAY_PRECEDE_QUOTE = np.zeros(256, dtype=bool)
_MAY_PRECEDE_QUOTE[[_COMMA, _QUOTE, _LINE_FEED, _CARRIAGE_RETURN]] = True


def require_bounded(file: IO[bytes], size: int = _TEXT_BLOCK) -> Counted:
    """Count the rows and fields of a CSV file, which is read in blocks of this size, and rewound.

    Raises InvalidSubmission if the table would be far larger than the file.
    """
    try:
        table = _count(_blocks(file, size))
    except _StrayQuoteError:  # rare, and slower: replaces quoted fields
        file.seek(0)
        text = _QUOTED_FIELD.sub(b"x", file.read().removeprefix(_BYTE_ORDER_MARK))
        table = _count((text[start : start + size] for start in range(0, len(text), size)), quotes=False)
    file.seek(0)
    return table


class _StrayQuoteError(Exception):
    """A field has a quote but does not begin with one, so quotes cannot be paired."""


@dataclass
class Counted:
    rows: int = 0
    fields: int = 0
    width: int = 0
    """The most fields in a row."""
    row_fields: int = 1
    """Fields of the row that has not ended yet; ``row_bytes`` are its bytes."""
    row_bytes: int = 0

    def add(self, ends: NDArray[np.intp], is_row: NDArray[np.bool_], size: int) -> None:
        """Add a block of ``size`` bytes: the positions of its fields' ends, and whether each also ends a row."""
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
        is_filled = lengths > 0  # an empty line is not a row
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
        """Return whether the block is complete rows of the maximum width so far. Most are, and are quick to count."""
        width = self.width
        if width < 2 or self.row_bytes or not len(ends) or len(ends) % width or int(ends[-1]) != size - 1:
            return False
        return bool(is_row[width - 1 :: width].all()) and int(np.count_nonzero(is_row)) * width == len(ends)


def _count(blocks: Iterable[bytes], *, quotes: bool = True) -> Counted:
    table = Counted()
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


def _blocks(file: IO[bytes], size: int) -> Iterator[bytes]:
    """Yield the file in blocks that end with a line, unless it is longer than a block."""
    block = file.read(size).removeprefix(_BYTE_ORDER_MARK)
    while block:
        end = block.rfind(b"\n") + 1 or len(block)
        yield block[:end]
        block = block[end:] + file.read(size - (len(block) - end))


_MAGIC = {b"\x1f\x8b": "gzip data", b"PK\3\4": "a zip archive", b"PAR1": "a Parquet file", b"\x89HDF": "an HDF5 file"}


@contextmanager
def open_submission(
    path: Path, max_bytes: int = MAX_SUBMISSION_BYTES, opened: Mapping[Path, int] = NOTHING_OPEN
) -> Iterator[IO[bytes]]:
    """Open a submission, and check the opened file: it must be a regular file of a bounded size.

    ``opened`` has descriptors of files that this process may not open, by path. Raises InvalidSubmission for a link, a
    pipe, a folder or a device, and for a file that is too large.
    """
    try:
        descriptor = os.dup(opened[path]) if path in opened else os.open(path, REGULAR)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise InvalidSubmission(f"{path.name} is a symbolic link; a regular file was expected") from error
        raise InvalidSubmission(f"{path.name} cannot be read: {error.strerror}") from error
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):  # checked first, because fdopen rejects a folder
        os.close(descriptor)
        raise InvalidSubmission(f"{path.name} is not a regular file")
    with os.fdopen(descriptor, "rb") as file:
        if status.st_size > max_bytes:
            raise InvalidSubmission(f"{path.name} has {status.st_size:,} bytes; at most {max_bytes:,} are read")
        file.seek(0)  # descriptors of the same file share their position
        yield file


def _guess_format(path: Path, opened: Mapping[Path, int]) -> str:
    """Return the format of a file that was submitted instead of CSV, by its first bytes; empty if unknown."""
    with suppress(OSError, InvalidSubmission), open_submission(path, opened=opened) as file:
        head = file.read(4)
        return next((f"it is {name}" for magic, name in _MAGIC.items() if head.startswith(magic)), "")
    return ""


def read_submission(
    path: Path, max_bytes: int = MAX_SUBMISSION_BYTES, opened: Mapping[Path, int] = NOTHING_OPEN, **options: Any
) -> pd.DataFrame:
    """Read a submission with pandas, with exact (round-trip) floats; an empty file gives a table without columns.

    ``opened`` is that of ``open_submission``; other ``options`` are those of pandas' ``read_csv``.
    Raises InvalidSubmission with the reason if the file cannot be read.
    """
    try:
        with archive_errors(path.name), open_submission(path, max_bytes, opened) as file:
            table = read_table(file, require_bounded(file).rows, **options)
    except pd.errors.EmptyDataError:
        return pd.DataFrame()
    except OSError as error:
        raise InvalidSubmission(f"{path.name} cannot be read: {error.strerror}") from error
    except (ValueError, OverflowError, ArchiveError) as error:
        if "out of memory" in str(error):  # the message of pandas' parser
            raise MemoryError from error
        raise InvalidSubmission(f"not a readable CSV file: {_guess_format(path, opened) or reason(error)}") from error
    return table.set_axis(pd.RangeIndex(len(table)))  # drops row names: pandas takes additional fields as such


class _Grading:
    """A competition's ``grade.py``, and the submissions that its functions take."""

    def __init__(self, competition: Competition, max_bytes: int, opened: Mapping[Path, int]) -> None:
        self.competition = competition
        self._module = competition.module("grade")
        self._options: dict[str, Any] = getattr(self._module, "READ_OPTIONS", {})
        if not isinstance(self._options, Mapping):
            raise CompetitionError(f"{competition.file('grade.py')}: READ_OPTIONS must be a dictionary")
        self._max_bytes, self._opened = max_bytes, opened

    def _call(self, function: Callable[[Any, Any], Any], path: Path, answers: Any) -> Any:
        submission = read_submission(path, self._max_bytes, self._opened, **self._options)
        try:
            return function(submission, answers)
        except (InvalidSubmission, CompetitionError, MemoryError):
            raise
        except (Exception, SystemExit) as error:
            raise GraderDefect(f"grade.py raised {self.competition.describe_error(error)}") from error


class Scorer(_Grading):
    """A competition's ``grade.py`` (see docs/competitions.md) with the answers, which are read once and cached.

    ``np.float64`` and ``float`` round differently, so a grader must return the same type as the reference's grader.
    This class sets no limits of memory or time: ``Grader`` grades in a process with limits.
    """

    def __init__(
        self,
        competition: Competition,
        answers: Path,
        *,
        max_bytes: int = MAX_SUBMISSION_BYTES,
        opened: Mapping[Path, int] = NOTHING_OPEN,
    ) -> None:
        super().__init__(competition, max_bytes, opened)
        self._grade: Callable[[Any, Any], float] = competition.function("grade", "grade")
        read_table = partial(read_answers, **self._options)
        self._read_answers: Callable[[Path], Any] = getattr(self._module, "read_answers", read_table)
        self._row_scores: Callable[[Any, Any], Any] | None = getattr(self._module, "row_scores", None)
        self._path = answers
        self._answers: Any = None
        self._scored: tuple[Path | None, float] = None, math.nan
        if not answers.is_file():
            raise DataError(f"{competition.id}: no answers at {answers}; run `{command('prepare', competition)}` first")

    @property
    def answers(self) -> Any:
        if self._answers is None:
            try:
                self._answers = self._read_answers(self._path)
            except (CompetitionError, DataError, MemoryError):
                raise
            except (Exception, SystemExit) as error:
                raise GraderDefect(f"{self._path} cannot be read: {self.competition.describe_error(error)}") from error
        return self._answers

    def score(self, path: Path) -> float:
        """Return the unrounded score of a submission, as the grader's type; NaN if it has none.

        Raises InvalidSubmission with the reason, GraderDefect if the grader raised anything else.
        """
        score: float = self._call(self._grade, path, _copy(self.answers))
        try:
            if isinstance(score, str | bytes | bool):  # float() would accept these
                raise TypeError(score)
            float(score)
        except (TypeError, ValueError, OverflowError) as error:
            found = " ".join(reprlib.repr(score).split())
            raise GraderDefect(f"grade.py: grade returned {found}, which is not a number") from error
        self._scored = path, score
        return score

    def certainty(self, path: Path) -> Certainty | None:
        """Return how certain the score of a submission is; None if it has no row scores.

        Raises as ``row_scores``.
        """
        if (rows := self.row_scores(path)) is None:
            return None
        leaderboard = self.competition.leaderboard
        medal = leaderboard.medal(round(rows.estimate, 5))
        return certainty(rows, None if medal is None else partial(leaderboard.earns, medal))

    def row_scores(self, path: Path) -> RowScores | None:
        """Return the row scores of a submission; None if it has no score, or the competition has no row scores.

        Raises as ``score``, and GraderDefect if ``row_scores`` and ``grade`` give different scores.
        """
        if self._row_scores is None:
            return None
        if self._scored[0] != path:  # some gradings take minutes
            self.score(path)
        score = float(self._scored[1])
        if not math.isfinite(score):
            return None
        found = self._call(self._row_scores, path, _copy(self.answers))
        try:
            rows = as_row_scores(found)
        except (TypeError, ValueError, AttributeError) as error:
            raise GraderDefect(f"grade.py: row_scores returned invalid row scores: {error}") from error
        if math.isnan(rows.estimate):  # if grade returns a score by convention
            return None
        if not math.isclose(rows.estimate, score, rel_tol=1e-6, abs_tol=1e-9):
            raise GraderDefect(f"row_scores gives {rows.estimate!r}, but grade gives {score!r}")
        return rows


def _copy(answers: Any) -> Any:
    """Return a copy of the answers that a grader may change."""
    if isinstance(answers, pd.DataFrame):
        return answers.copy(deep=False)  # pandas copies a column when it is written to
    return answers.copy() if hasattr(answers, "copy") else answers


class Form(_Grading):
    """A competition's submission format, as ``grade.py`` (see docs/competitions.md) and the public files define it.

    If a grader calls ``check`` with the answers as the template, checker and grader cannot disagree.
    """

    def __init__(
        self,
        competition: Competition,
        public: Path,
        *,
        max_bytes: int = MAX_SUBMISSION_BYTES,
        opened: Mapping[Path, int] = NOTHING_OPEN,
    ) -> None:
        super().__init__(competition, max_bytes, opened)
        self._check: Callable[[Any, Any], object] = getattr(self._module, "check", check_like_sample)
        self._template: Any
        if read_template := getattr(self._module, "read_template", None):
            self._template = read_template(public)
        else:
            side, _, name = competition.sample_submission.partition("/")
            if side != "public":
                raise CompetitionError(
                    f"{competition.file('grade.py')}: needs read_template(public), since the sample submission "
                    f"{competition.sample_submission} is not public"
                )
            with archive_errors(public / name):
                self._template = read_csv(public / name, **self._options)

    def check(self, path: Path) -> None:
        """Raise InvalidSubmission with the reason, or GraderDefect if ``check`` raised anything else."""
        self._call(self._check, path, self._template)


def check_like_sample(submission: pd.DataFrame, sample: pd.DataFrame) -> None:
    """Require the sample's columns, numbers in its columns of numbers, and the same ids in the first column.

    If the sample's ids are not unique, only the number of rows is checked.
    """
    require_columns(submission, list(sample.columns))
    key, *others = sample.columns
    for column in others:
        if sample[column].dtype.kind in "biuf" and sample[column].notna().any():
            numeric(submission, column)
    if sample[key].is_unique:
        alignment(submission, sample, on=key)
    else:
        require_row_count(submission, sample)
