"""A run group on disk: its manifest, records, grading reports in MLE-bench's format, and the runs in progress."""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from pytest_mlebench import defaults
from pytest_mlebench.errors import SandboxError, UsageError, reason
from pytest_mlebench.io.files import open_regular
from pytest_mlebench.io.processes import is_dead, owner_labels
from pytest_mlebench.io.progress import Event, event_from_json, event_to_json
from pytest_mlebench.io.values import loads, read_json, write_json
from pytest_mlebench.records.manifest import Manifest
from pytest_mlebench.records.outcome import Ending, Report
from pytest_mlebench.records.record import (
    EVENTS,
    GRADING_REPORT,
    MANIFEST,
    METADATA,
    RECORD,
    RUNNING,
    RunKey,
    RunRecord,
    check_moment,
    check_seed,
)


class SplitAndCategory(NamedTuple):
    """The split and category of a competition."""

    split: str
    category: str


_LFS_POINTER = b"version https://git-lfs.github.com/"
UNKNOWN = SplitAndCategory("unknown", "unknown")


@dataclass(frozen=True, kw_only=True)
class _GradingReport:
    """A grading report without its totals."""

    competition_reports: tuple[Report, ...]


@dataclass(frozen=True, kw_only=True)
class RunGroup:
    """The runs of one experiment so far: one record for each key, ordered by start.

    ``manifest`` is empty if the group has none. ``broken`` lists the files that should be records but cannot be read,
    with the reason.

    >>> from pytest_mlebench import read_group
    >>> group = read_group(Path("reports/first"))
    >>> group.name, group.agents, len(group.records)
    ('first', ('dummy',), 3)
    """

    folder: Path
    records: tuple[RunRecord, ...]
    manifest: Manifest = field(default_factory=Manifest)
    broken: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.folder.resolve().name

    @cached_property
    def version(self) -> str:
        """The version of the benchmark, the same for all runs of a group (see ``OpenGroup``)."""
        noted = self.manifest.settings.get("bench_version")
        return str(noted or next((record.report.bench_version for record in self.records), defaults.VERSIONS[0]))

    @cached_property
    def planned(self) -> frozenset[RunKey]:
        """The planned runs; without a manifest, the runs that have a record."""
        return self.manifest.keys or frozenset(self.runs)

    @cached_property
    def runs(self) -> Mapping[RunKey, RunRecord]:
        return {record.key: record for record in self.records}

    @cached_property
    def agents(self) -> tuple[str, ...]:
        """All agents with a recorded or planned run."""
        return tuple(sorted({key.agent for key in (*self.planned, *self.runs)}))

    @cached_property
    def splits_and_categories(self) -> Mapping[str, SplitAndCategory]:
        """Split and category of each competition, from its records or the manifest; ``UNKNOWN`` if neither has them."""
        found = {record.competition_id: SplitAndCategory(record.split, record.category) for record in self.records}
        noted = self.manifest.settings.get("competitions", {})
        for id in sorted({key.competition_id for key in self.planned} - found.keys()):
            is_noted = {"split", "category"} <= noted.get(id, {}).keys()
            found[id] = SplitAndCategory(noted[id]["split"], noted[id]["category"]) if is_noted else UNKNOWN
        return found


_Version = tuple[int, int, int]
"""The time of a file's last change, its size and its inode."""


class GroupReader:
    """Reads a run group's folder repeatedly while the group grows. A record is read again only if its file changed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._added: dict[str, RunRecord] = {}
        self._read: dict[Path, tuple[_Version, RunRecord]] = {}
        self._broken: list[str] = []

    def add(self, record: RunRecord) -> None:
        """Add a record that this process created, so that it is not read from disk."""
        self._added[record.run_id] = record

    def received(self, values: Mapping[str, Any]) -> RunRecord:
        """Add a record that another process sent as JSON values, and return it."""
        if (id := values["run_id"]) not in self._added:
            _, known = self._read.get(self.folder / id / RECORD, (None, None))
            self.add(known or RunRecord.from_json(values))
        return self._added[id]

    def record(self, run_id: str) -> RunRecord:
        """The record of a finished run; raises UsageError if it cannot be read."""
        path = self.folder / run_id / RECORD
        try:
            return self._current(path)
        except (OSError, ValueError) as error:
            raise UsageError(f"{path} is not a run record: {reason(error)}") from error

    def _current(self, path: Path) -> RunRecord:
        if (added := self._added.get(path.parent.name)) is not None:
            return added
        status = path.lstat()
        version = status.st_mtime_ns, status.st_size, status.st_ino
        if path not in self._read or self._read[path][0] != version:
            self._read[path] = version, RunRecord.read(path.parent)
        return self._read[path][1]

    def records(self) -> tuple[RunRecord, ...]:
        """The latest record of each run, ordered by start. Files that are not records are left out."""
        self._broken = []
        found = dict(self._added)
        for path in sorted(self.folder.glob(f"*/{RECORD}")):
            if path.parent.is_symlink():
                self._broken.append(f"{path.parent} is a link, which is not followed here: move the folder back")
                continue
            try:
                found[path.parent.name] = self._current(path)
            except (OSError, ValueError) as error:
                self._broken.append(f"{path} is not a run record: {reason(error)}")
        ordered = sorted(found.values(), key=lambda record: (record.started_at, record.run_id))
        latest = {record.key: record for record in ordered}
        return tuple(record for record in ordered if latest[record.key] is record)

    def _from_grading_report(self) -> tuple[RunRecord, ...]:
        """Runs from the last grading report, for a folder without records. A competition's i-th report has seed i.

        Grading reports have no splits and categories (see ``results.read_group``).
        """
        reports = sorted(self.folder.glob(f"*{GRADING_REPORT}"))
        if not reports:
            return ()
        self._broken += [
            f"{earlier}: only the last grading report is read, {reports[-1].name}; give each its own folder"
            for earlier in reports[:-1]
        ]
        try:
            found = read_json(reports[-1], _GradingReport).competition_reports
            for report in found:
                check_moment("created_at", report.created_at)
        except (OSError, ValueError) as error:
            self._broken.append(f"{reports[-1]} is not a grading report: {_lfs_pointer(reports[-1]) or reason(error)}")
            return ()
        name, seeds = self.folder.resolve().name, Counter[str]()
        records = []
        for report in found:
            id, seed = report.competition_id, seeds[report.competition_id]
            seeds[id] += 1
            records.append(
                RunRecord(
                    run_id=quote(f"{id}_{seed}", safe=""),
                    run_group=name,
                    competition_id=id,
                    **UNKNOWN._asdict(),
                    agent=name,
                    seed=seed,
                    started_at=report.created_at,
                    ended_at=report.created_at,
                    ending=Ending.FINISHED,
                    seconds=0.0,
                    report=report,
                )
            )
        return tuple(records)

    def read(self) -> RunGroup:
        """The current state of the group; raises UsageError if there is none."""
        folder = self.folder
        if not folder.is_dir():
            raise UsageError(f"run group {folder} does not exist")
        records, manifest = self.records(), Manifest.read(folder)
        if not records and manifest is None and not (records := self._from_grading_report()):
            raise UsageError(
                f"{folder} is not a run group: it contains neither {MANIFEST} nor the record of a run"
                + "".join(f"\n{reason}" for reason in self._broken)
            )
        return RunGroup(folder=folder, records=records, manifest=manifest or Manifest(), broken=tuple(self._broken))


def _lfs_pointer(path: Path) -> str:
    """Advice for a file whose content was not fetched from Git LFS; empty for any other file."""
    try:
        with open_regular(path, follow_links=False) as file:
            is_pointer = file.read(len(_LFS_POINTER)) == _LFS_POINTER
    except (OSError, ValueError):
        return ""
    return f"it is a Git LFS pointer; run `git lfs pull` in {path.parent}" if is_pointer else ""


def group_folders(runs_dir: Path) -> list[Path]:
    """The run groups in a folder, most recently used last. Raises OSError."""
    folders = [path for path in runs_dir.iterdir() if path.is_dir()] if runs_dir.is_dir() else []
    used = {}
    for folder in folders:
        with suppress(OSError):  # it is not a run group
            used[folder] = (folder / MANIFEST).stat().st_mtime
    return sorted(used, key=lambda folder: (used[folder], folder.name))


_MAX_NAME = 150


def grading_report(reports: Sequence[Report]) -> dict[str, Any]:
    """A grading report with MLE-bench's keys: the totals, and the report of each submission."""

    # Times have no offset, as in MLE-bench: Python cannot compare times with and without one.
    individual = [report.to_json() | {"created_at": report.created_at.removesuffix("+00:00")} for report in reports]
    return {
        "total_runs": len(reports),
        "total_runs_with_submissions": sum(report.submission_exists for report in reports),
        "total_valid_submissions": sum(report.valid_submission for report in reports),
        "total_medals": sum(report.any_medal for report in reports),
        "total_gold_medals": sum(report.gold_medal for report in reports),
        "total_silver_medals": sum(report.silver_medal for report in reports),
        "total_bronze_medals": sum(report.bronze_medal for report in reports),
        "total_above_median": sum(report.above_median for report in reports),
        "competition_reports": individual,
    }


def write_group(group_dir: Path, created_at: str, records: Iterable[RunRecord]) -> None:
    """Write ``metadata.json`` and ``grading_report.json`` of a run group. If it has several agents, also write a
    ``grading_report_<agent>.json`` for each.

    The reports are ordered by agent, seed and competition: to MLE-bench, a competition's i-th report has seed i.
    """
    records = sorted(records, key=lambda record: (record.agent, record.seed, record.competition_id))
    runs = {r.run_id: {"success": r.ending == Ending.FINISHED, "outcome": r.outcome} for r in records}
    write_json(group_dir / METADATA, {"run_group": group_dir.name, "created_at": created_at, "runs": runs})
    write_json(group_dir / GRADING_REPORT, grading_report([record.report for record in records]))
    agents = sorted({record.agent for record in records})
    for agent in agents if len(agents) > 1 else ():
        reports = [record.report for record in records if record.agent == agent]
        write_json(group_dir / report_name(agent), grading_report(reports))


def report_name(agent: str) -> str:
    """The file name of an agent's grading report, unique to its id, with ``+`` in place of ``/``."""
    text = quote(agent, safe="").replace("%2F", "+")
    if len(text) > _MAX_NAME:
        text = f"{text[:_MAX_NAME]}+{hashlib.sha256(agent.encode()).hexdigest()[:16]}"
    return f"{Path(GRADING_REPORT).stem}_{text}.json"


_REFRESH_SECONDS = 5.0
_LOST_SECONDS = 60.0
"""Seconds without a refresh after which a run on another host counts as interrupted; clocks may differ a little."""
_MAX_TIME = 1e11


@dataclass(frozen=True, kw_only=True)
class RunInProgress:
    """A run that has started but has no record yet. Times are in seconds, ``started`` since the epoch."""

    competition_id: str
    agent: str
    seed: int
    worker: str
    started: float
    time_limit: float
    owner: Mapping[str, str]
    run_dir: Path = Path()
    interrupted: bool = False
    """Its process has ended, so there will be no record."""

    def __post_init__(self) -> None:
        check_seed(self.seed)
        for name in ("started", "time_limit"):
            if not 0 <= getattr(self, name) <= _MAX_TIME:
                raise ValueError(f"{name} must be a number of seconds, not {getattr(self, name)}")

    @property
    def key(self) -> RunKey:
        return RunKey(self.agent, self.competition_id, self.seed)


@contextmanager
def mark_running(run_dir: Path, key: RunKey, *, worker: str, time_limit: float) -> Iterator[None]:
    """Context manager: list a run as in progress. After an exception it stays listed, as an interrupted run.

    Raises SandboxError if it cannot be listed.
    """
    path = run_dir / RUNNING
    about = {"worker": worker, "started": time.time(), "time_limit": time_limit, "owner": owner_labels()}
    try:
        write_json(path, {**key._asdict(), **about})
    except OSError as error:
        raise SandboxError(f"{path} cannot be written: {reason(error)}") from error
    stop = threading.Event()

    def refresh() -> None:
        while not stop.wait(_REFRESH_SECONDS):
            with suppress(OSError):
                os.utime(path)

    thread = threading.Thread(target=refresh, name="mlebench-running", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
    path.unlink(missing_ok=True)


def runs_in_progress(group_dir: Path) -> list[RunInProgress]:
    """The runs of a group that have no record yet, ordered by start."""
    found = []
    for path in group_dir.glob(f"*/{RUNNING}"):
        if path.parent.is_symlink() or (path.parent / RECORD).exists():
            continue
        try:
            run = read_json(path, RunInProgress)
            unrefreshed = time.time() - path.stat().st_mtime
        except (OSError, ValueError):  # it has just ended, or the file is not ours
            continue
        interrupted = is_dead(run.owner) or unrefreshed > _LOST_SECONDS
        found.append(replace(run, run_dir=path.parent, interrupted=interrupted))
    return sorted(found, key=lambda run: (run.started, run.run_dir.name))


def runs_to_resume(found: Sequence[RunInProgress], done: Collection[RunKey]) -> list[RunInProgress]:
    """The latest attempt of each interrupted run in ``found`` that has not been resumed: no record, not in progress."""
    running = {run.key for run in found if not run.interrupted}
    latest = {run.key: run for run in found if run.interrupted}
    return [run for key, run in latest.items() if key not in done and key not in running]


_READ_BYTES = 1 << 16


@dataclass(frozen=True)
class LoggedEvent:
    """An event with its time (ISO 8601, UTC) and its xdist worker ("" for the session's main process)."""

    at: str
    worker: str
    event: Event


def log_event(group_dir: Path, event: Event, worker: str = "") -> None:
    """Append an event to a group's log. Raises OSError."""
    entry = {"at": datetime.now(UTC).isoformat(timespec="seconds"), "worker": worker, **event_to_json(event)}
    line = f"{json.dumps(entry)}\n".encode()
    descriptor = os.open(group_dir / EVENTS, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.write(descriptor, line)  # in one call, so that lines of several processes do not mix
    finally:
        os.close(descriptor)


def latest_events(group_dir: Path, number: int) -> list[LoggedEvent]:
    """The last events of a group's log, oldest first; none if there is no log."""
    try:
        with open_regular(group_dir / EVENTS, follow_links=False) as file:
            start = max(0, file.seek(0, os.SEEK_END) - _READ_BYTES)
            file.seek(start)
            lines = file.read().splitlines()
    except (OSError, ValueError):
        return []
    found = []
    for line in lines[1:] if start else lines:
        with suppress(ValueError, TypeError, LookupError, AttributeError):  # cut by a full disk or a power failure
            values = loads(line)
            found.append(LoggedEvent(str(values.pop("at")), str(values.pop("worker")), event_from_json(values)))
    return found[-number:]
