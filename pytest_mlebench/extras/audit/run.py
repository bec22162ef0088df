"""A run to audit: the files that it left, each read once and up to a limit."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

from pytest_mlebench.catalog.competition import Competition
from pytest_mlebench.data.dataset import Dataset
from pytest_mlebench.extras.audit.programs import Program, code_of, commands_of, read_trajectory
from pytest_mlebench.io.files import digest_of
from pytest_mlebench.llm.ledger import read_calls
from pytest_mlebench.records.group import RunGroup
from pytest_mlebench.records.record import SUBMISSION, RunRecord
from pytest_mlebench.runs.regrade import Regrader

_ROWS, _CELLS, _TABLE_BYTES = 200_000, 4_000_000, 256 << 20
"""Maximum rows, cells and bytes of a submission that are compared."""
_CLASSES = 100
"""Maximum different predictions in a submission whose classes are compared."""


@dataclass(frozen=True, kw_only=True)
class AuditedRun:
    """A run to audit. ``dataset`` is None if the data is not on this machine. ``peers`` are the group's other runs on
    the competition, with the SHA-256 of their submissions."""

    record: RunRecord
    run_dir: Path
    competition: Competition | None
    dataset: Dataset | None
    peers: Sequence[tuple[RunRecord, str]] = ()
    provider_tools: bool = False

    @cached_property
    def _code(self) -> tuple[list[Program], list[str]]:
        return code_of(self.run_dir)

    @property
    def code(self) -> list[Program]:
        """The code that the agent left."""
        return self._code[0]

    @property
    def not_read(self) -> list[str]:
        """Names of code files that could not be read, or exceeded a limit."""
        return self._code[1]

    @cached_property
    def programs(self) -> list[Program]:
        """The agent's code, and the commands that its models issued."""
        return [*self.code, *commands_of(self.trajectory)]

    @cached_property
    def trajectory(self) -> Mapping[str, Any] | None:
        return read_trajectory(self.run_dir)

    @cached_property
    def calls(self) -> list[dict[str, Any]]:
        """The model calls in its ledger."""
        return read_calls(self.run_dir)

    @cached_property
    def submission(self) -> Path | None:
        path = self.run_dir / SUBMISSION
        return path if path.is_file() and not path.is_symlink() else None

    @cached_property
    def rows(self) -> list[list[str]]:
        """The first rows of its submission, without the header; none if it is not a CSV file."""
        return _rows(self.submission)

    @cached_property
    def sample_rows(self) -> list[list[str]]:
        return [] if self.dataset is None else _rows(self.dataset.sample_submission)

    @cached_property
    def perfect_rows(self) -> list[list[str]]:
        """The rows of the perfect submission, which is private."""
        return [] if self.dataset is None else _rows(self.dataset.perfect_submission)

    @cached_property
    def classes(self) -> frozenset[frozenset[str]]:
        """The ids, and the positions from 0 and from 1, of all rows with the same prediction; empty if it has other
        columns or many predictions."""
        by_prediction: dict[str, list[int]] = {}
        for position, row in enumerate(self.rows):
            if len(row) != 2 or len(by_prediction) > _CLASSES:
                return frozenset()
            by_prediction.setdefault(row[1], []).append(position)
        found = set[frozenset[str]]()
        for positions in by_prediction.values() if len(by_prediction) > 1 else ():
            found.add(frozenset(self.rows[k][0] for k in positions))
            found.update(frozenset(str(k + first) for k in positions) for first in (0, 1))
        return frozenset(found)

    @cached_property
    def labels(self) -> frozenset[str]:
        """The second and the last column, if each of its cells has one character, as one text."""
        found = []
        for part in (slice(1, 2), slice(-1, None)):
            cells = ["".join(row[part]) for row in self.rows]
            if cells and all(len(cell) == 1 for cell in cells):
                found.append("".join(cells))
        return frozenset(found)

    @cached_property
    def label_numbers(self) -> frozenset[int]:
        """The numbers whose bits are such a column."""
        return frozenset(int(text, 2) for text in self.labels if not text.strip("01"))

    @cached_property
    def test_ids(self) -> frozenset[str]:
        """The ids to predict, from the sample submission or, without one, from the submission."""
        return frozenset(row[0] for row in self.sample_rows or self.rows if row and len(row[0]) > 1)


def _rows(path: Path | None) -> list[list[str]]:
    if path is None or path.suffix != ".csv":
        return []
    limit = csv.field_size_limit(_TABLE_BYTES)  # masks of images are longer than the default
    try:
        with path.open(newline="", encoding="utf-8", errors="replace") as file:
            return list(islice(csv.reader(_lines(file)), 1, _ROWS + 1))
    except (OSError, csv.Error):
        return []
    finally:
        csv.field_size_limit(limit)


def _lines(file: TextIO) -> Iterator[str]:
    """Yield the lines of a table until a limit on cells or characters is reached."""
    cells = size = 0
    while (line := file.readline(_TABLE_BYTES + 1 - size)) and size + len(line) <= _TABLE_BYTES:
        size += len(line)
        cells += line.count(",") + 1
        if cells > _CELLS:
            return
        yield line


def runs_of(group: RunGroup, graders: Regrader | None = None) -> Iterator[AuditedRun]:
    """Yield the runs of a group. ``graders`` finds competitions and data. Raises OSError if files cannot be read."""
    digests = {
        record.run_id: digest_of(path)
        for record in group.records
        if (path := group.folder / record.run_id / SUBMISSION).is_file() and not path.is_symlink()
    }
    tools = bool(group.manifest.settings.get("allow_provider_tools"))
    for record in group.records:
        peers = [
            (other, digests[other.run_id])
            for other in group.records
            if other is not record and other.competition_id == record.competition_id and other.run_id in digests
        ]
        yield AuditedRun(
            record=record,
            run_dir=group.folder / record.run_id,
            competition=None if graders is None else graders.competition(record.competition_id),
            dataset=None if graders is None else graders.dataset(record),
            peers=peers,
            provider_tools=tools,
        )
