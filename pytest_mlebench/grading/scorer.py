"""Scoring, and checking a submission's form, in this process: for the process that grades, and for trusted files.

Reading tables of millions of numbers with little more memory than they take.

pandas parses a file in pieces and puts these together when it has read all; the pieces' memory seldom goes back to the
kernel, so the table takes twice its size or more.
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
from typing import IO, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pytest_mlebench.authoring.checks import require_columns, require_row_count
from pytest_mlebench.authoring.columns import numeric
from pytest_mlebench.authoring.ids import alignment
from pytest_mlebench.authoring.resampling import Certainty, RowScores, as_row_scores, certainty
from pytest_mlebench.authoring.tables import read_csv
from pytest_mlebench.catalog.competition import Competition, command
from pytest_mlebench.defaults import MAX_SUBMISSION_BYTES
from pytest_mlebench.errors import CompetitionError, DataError, GraderDefect, InvalidSubmission, MLEBenchError, reason


@dataclass(frozen=True)
class Pieces:
    """When a table is read piece by piece, in rows: from how many on, in pieces of how many.

    The ``first`` rows tell most files of texts from those of numbers.
    """

    many: int = 1 << 20
    piece: int = 1 << 17
    first: int = 1000


PIECES = Pieces()
_BLOCK = 1 << 18
_KEPT = 16 << 20
"""Bytes: once a block of that size was given back, untouched, glibc keeps up to twice as many for the next piece.

Otherwise the kernel takes back each piece's memory and clears it again for the next one.
"""


def read_table(file: IO[bytes], rows: int, pieces: Pieces = PIECES, **options: Any) -> pd.DataFrame:
    """The table that pandas' ``read_csv`` makes of a file that it has from the start, of at most ``rows`` rows.

    ``options`` are those of ``read_csv``; raises as it does.
    """
    if rows >= pieces.many and not options:
        table = _numbers(file, rows, pieces)
        file.seek(0)
        if table is not None:
            return table
    return read_csv(file, **options)


def read_answers(path: Path, **options: Any) -> pd.DataFrame:
    """``read_table`` of a file that is trusted."""
    with path.open("rb") as file:
        rows = sum(block.count(b"\n") for block in iter(lambda: file.read(_BLOCK), b"")) + 1
        file.seek(0)
        return read_table(file, rows, **options)


def _numbers(file: IO[bytes], rows: int, size: Pieces) -> pd.DataFrame | None:
    """None where pandas would find anything but 64-bit integers or floats throughout each column, or an error.

    Where every piece of a column has one of these types, pandas comes to the same for the whole column: it reads in
    pieces itself.
    """
    columns: list[NDArray[Any]] = []
    end = 0
    with suppress(ValueError, OverflowError):  # pandas' own errors are ValueErrors; reading all at once raises it again
        first = pd.read_csv(file, nrows=size.first)
        if not _is_of_numbers(first):
            return None
        file.seek(0)
        np.empty(_KEPT, dtype=np.uint8)
        with pd.read_csv(file, chunksize=size.piece) as pieces:
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


MAX_COLUMNS = 10_000
MAX_HEADER_BYTES = 1 << 20
MAX_FILLED = 10_000_000
"""Fields that rows lack, in all: filled up, each takes as much memory as one that is there."""
_TEXT_BLOCK = 1 << 16
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
        table = _count((text[start : start + _TEXT_BLOCK] for start in range(0, len(text), _TEXT_BLOCK)), quotes=False)
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
    block = file.read(_TEXT_BLOCK).removeprefix(_BYTE_ORDER_MARK)
    while block:
        end = block.rfind(b"\n") + 1 or len(block)
        yield block[:end]
        block = block[end:] + file.read(_TEXT_BLOCK - (len(block) - end))


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


def _read_options(competition: Competition) -> dict[str, Any]:
    options: dict[str, Any] = getattr(competition.module("grade"), "READ_OPTIONS", {})
    if not isinstance(options, Mapping):
        raise CompetitionError(f"{competition.file('grade.py')}: READ_OPTIONS must be a dictionary")
    return options


class Scorer:
    """A competition's ``grade.py`` (see docs/competitions.md) with the answers, which are read once and kept.

    Its scores are rounded as their type is, a ``np.float64`` otherwise than a ``float``: a grader returns the type that
    the reference's does. Nothing limits what grading takes here: ``Grader`` grades in a process with limits.
    """

    def __init__(self, competition: Competition, answers: Path, *, max_bytes: int = MAX_SUBMISSION_BYTES) -> None:
        self.competition = competition
        self.max_bytes = max_bytes
        self._grade: Callable[[Any, Any], float] = competition.function("grade", "grade")
        module = competition.module("grade")
        self._options = _read_options(competition)
        read_table = partial(read_answers, **self._options)
        self._read_answers: Callable[[Path], Any] = getattr(module, "read_answers", read_table)
        self._row_scores: Callable[[Any, Any], Any] | None = getattr(module, "row_scores", None)
        self._path = answers
        self._answers: Any = None
        self._scored: tuple[Path, float] | None = None
        if not answers.is_file():
            raise DataError(f"{competition.id}: no answers at {answers}; run `{command('prepare', competition)}` first")

    @property
    def answers(self) -> Any:
        if self._answers is None:
            try:
                self._answers = self._read_answers(self._path)
            except (MLEBenchError, OSError, MemoryError):
                raise
            except (Exception, SystemExit) as error:
                raise GraderDefect(f"{self._path} cannot be read: {self.competition.describe_error(error)}") from error
        return self._answers

    def score(self, path: Path) -> float:
        """The unrounded score of a submission, NaN if it has none; as the type that the grader returns.

        Raises InvalidSubmission with the reason, GraderDefect where the grader raised anything else.
        """
        score: float = self._of_submission(self._grade, path)
        try:
            if isinstance(score, str | bytes | bool):  # of which Python makes numbers
                raise TypeError(score)
            float(score)
        except (TypeError, ValueError, OverflowError) as error:
            found = " ".join(reprlib.repr(score).split())
            raise GraderDefect(f"grade.py: grade returned {found}, which is not a number") from error
        self._scored = path, score
        return score

    def certainty(self, path: Path) -> Certainty | None:
        """How certain the score of a submission is; None where the competition's rows do not tell.

        Raises as ``row_scores``.
        """
        if (rows := self.row_scores(path)) is None:
            return None
        leaderboard = self.competition.leaderboard
        medal = leaderboard.medal(round(rows.estimate, 5))
        return certainty(rows, None if medal is None else partial(leaderboard.earns, medal))

    def row_scores(self, path: Path) -> RowScores | None:
        """What the score of a submission comes from; None if it has no score, or the competition has no row scores.

        Raises as ``score``, and GraderDefect where ``row_scores`` comes to another score than ``grade``.
        """
        if self._row_scores is None:
            return None
        known = self._scored is not None and self._scored[0] == path  # some gradings take minutes
        score = float(self._scored[1] if self._scored is not None and known else self.score(path))
        if not math.isfinite(score):
            return None
        found = self._of_submission(self._row_scores, path)
        try:
            rows = as_row_scores(found)
        except (TypeError, ValueError, AttributeError) as error:
            raise GraderDefect(f"grade.py: row_scores returned what are no row scores: {error}") from error
        if math.isnan(rows.estimate):  # where grade has a score by convention
            return None
        if not math.isclose(rows.estimate, score, rel_tol=1e-6, abs_tol=1e-9):
            raise GraderDefect(f"row_scores comes to {rows.estimate!r}, where grade comes to {score!r}")
        return rows

    def _of_submission(self, function: Callable[[Any, Any], Any], path: Path) -> Any:
        answers = self.answers
        submission = read_submission(path, self.max_bytes, **self._options)
        try:
            return function(submission, _copy(answers))
        except (InvalidSubmission, CompetitionError, MemoryError):
            raise
        except (Exception, SystemExit) as error:
            raise GraderDefect(f"grade.py raised {self.competition.describe_error(error)}") from error


def _copy(answers: Any) -> Any:
    """What a grader may change without changing the answers."""
    if isinstance(answers, pd.DataFrame):
        return answers.copy(deep=False)  # pandas copies a column when it is written to
    return answers.copy() if hasattr(answers, "copy") else answers


class Form:
    """The form of a submission, as ``grade.py`` (see docs/competitions.md) and the public files declare it.

    Where a grader calls ``check`` with the answers as the template, checker and grader cannot disagree.
    """

    def __init__(self, competition: Competition, public: Path, *, max_bytes: int = MAX_SUBMISSION_BYTES) -> None:
        module = competition.module("grade")
        self.max_bytes = max_bytes
        self._options = _read_options(competition)
        self._check: Callable[[Any, Any], object] = getattr(module, "check", check_like_sample)
        self._template: Any
        if read_template := getattr(module, "read_template", None):
            self._template = read_template(public)
        else:
            side, _, name = competition.sample_submission.partition("/")
            if side != "public":
                raise CompetitionError(
                    f"{competition.file('grade.py')}: needs read_template(public), since the sample submission "
                    f"{competition.sample_submission} is not public"
                )
            self._template = read_csv(public / name, **self._options)

    def check(self, path: Path) -> None:
        """Raises InvalidSubmission with the reason, GraderDefect where ``check`` raised anything else."""
        submission = read_submission(path, self.max_bytes, **self._options)
        try:
            self._check(submission, self._template)
        except (InvalidSubmission, MemoryError):
            raise
        except Exception as error:
            raise GraderDefect(f"grade.py raised {type(error).__name__}: {error}") from error


def check_like_sample(submission: pd.DataFrame, sample: pd.DataFrame) -> None:
    """The sample's columns must be there, with numbers where it has numbers, and the same ids in the first.

    Ids that are not unique in the sample are only counted.
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
