"""A run to audit: the files that it left, each read once and up to a limit."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

from pytest_mlebench.catalog.competition import Competition
from pytest_mlebench.data.dataset import Dataset
from pytest_mlebench.extras.audit.programs import Program, code_of, commands_of
from pytest_mlebench.io.values import loads
from pytest_mlebench.llm.trajectory import TRAJECTORY
from pytest_mlebench.records.group import RunGroup
from pytest_mlebench.records.record import SUBMISSION, RunRecord
from pytest_mlebench.runs.regrade import Regrader
from pytest_mlebench.sandbox.collection import digest_of

_TRAJECTORY_BYTES = 256 << 20
_ROWS = 200_000
"""Maximum rows of a submission that are compared."""


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
        path = self.run_dir / TRAJECTORY
        try:
            if path.is_symlink() or path.stat().st_size > _TRAJECTORY_BYTES:
                return None
            found = loads(path.read_bytes())
        except (OSError, ValueError):
            return None
        return found if isinstance(found, dict) else None

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
    def test_ids(self) -> frozenset[str]:
        """The ids to predict, from the sample submission or, without one, from the submission."""
        return frozenset(row[0] for row in self.sample_rows or self.rows if row and len(row[0]) > 1)


def _rows(path: Path | None) -> list[list[str]]:
    if path is None or path.suffix != ".csv":
        return []
    try:
        with path.open(newline="", encoding="utf-8", errors="replace") as file:
            return list(islice(csv.reader(file), 1, _ROWS + 1))
    except (OSError, csv.Error):
        return []


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
