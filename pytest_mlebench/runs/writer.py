"""Writes run groups: one session at a time opens a group, plans its runs and closes it; a later one may resume it.

Renaming, deleting and annotating keep all files of a group consistent.
"""

from __future__ import annotations

import fcntl
import os
import re
import shlex
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from filelock import AcquireReturnProxy, FileLock, Timeout

from pytest_mlebench._version import __version__
from pytest_mlebench.agents import Agent
from pytest_mlebench.catalog.competition import FIRST, Competition, split_label
from pytest_mlebench.errors import CompetitionError, UsageError, reason, unusable
from pytest_mlebench.io.files import real_path, remove_tree
from pytest_mlebench.io.processes import owner_labels
from pytest_mlebench.io.progress import Note, Reporter, WarningNote, silent
from pytest_mlebench.io.units import pluralize
from pytest_mlebench.io.values import loads, write_json
from pytest_mlebench.records.group import GroupReader, RunGroup, group_folders, runs_in_progress, write_group
from pytest_mlebench.records.manifest import (
    Canonical,
    Manifest,
    PlannedRun,
    SessionRecord,
    canonical_differences,
    changes,
    folder_digest,
    library_versions,
    merge,
    model_differences,
)
from pytest_mlebench.records.outcome import Limits
from pytest_mlebench.records.record import EVENTS, LOCK, MANIFEST, METADATA, RECORD, REPORT, WORKERS, RunRecord
from pytest_mlebench.runs.guard import CONFTEST, group_of, has_guard, is_group, protect, protect_all
from pytest_mlebench.runs.regrade import REGRADED
from pytest_mlebench.sandbox.gpus import this_machine

_MAX_NAME_BYTES = 200
_WAIT_FOR_WORKERS_SECONDS = 120.0
"""How long to wait for the workers of a killed session; they stop their agents before they end."""


class OpenGroup:
    """A run group that this session writes. No other session can open it before ``close``, or this process's end.
    Closing it completes the manifest and writes the reports and the page.

    Most arguments are those of ``Bench.open_group``. ``settings`` are other values that must stay the same for runs to
    be comparable (unless ``allow_changes``); ``options`` are what ``--resume`` restores. ``twins`` goes into the
    manifest once all runs are done: before that, an agent could derive the answers from it. ``page`` renders the page.

    Raises UsageError if another session uses the group, or if it was created with other settings, which are listed.
    """

    def __init__(
        self,
        folder: Path,
        *,
        agents: Iterable[Agent],
        sandboxes: Mapping[str, str],
        limits: Limits,
        workers: int,
        settings: Mapping[str, Any],
        options: Mapping[str, Any],
        competition_file: Callable[[str], Path],
        page: Callable[[RunGroup], str],
        allow_changes: bool = False,
        cluster: Mapping[str, str] | None = None,
        twins: Mapping[str, Any] | None = None,
        reporter: Reporter = silent,
    ) -> None:
        self.folder, self.reader = folder, GroupReader(folder)
        self._page, self._reporter = page, reporter
        self._twins = twins or {}
        self._competition_file = competition_file
        self._version = str(settings.get("bench_version", FIRST))
        _check_place(folder)
        make_folder(folder)
        self._lock = _locked(folder, ", or name another group").lock
        try:
            _await_workers(folder, reporter)
            protect_all(folder.parent)
            now = datetime.now(UTC).isoformat()
            known = Manifest.read(folder)
            self._is_new = known is None
            self.manifest = known or Manifest(run_group=folder.name, created_at=now)
            comparable = {
                "version": __version__,
                "agents": {
                    agent.id: {
                        **agent.describe(),
                        "sandbox": sandboxes[agent.id],
                        "digest": folder_digest(agent.folder),
                    }
                    for agent in agents
                },
                "limits": asdict(limits),
                **settings,
                "competitions": self._competitions(self.manifest.runs),
            }
            changed = self._changes(comparable, allowed=allow_changes)
            hardware = this_machine()
            protect(folder)
            session = SessionRecord(
                started_at=now,
                workers=workers,
                hardware=hardware,
                libraries=library_versions(),
                owner=owner_labels(),
                changes=changed,
                cluster=cluster or {},
            )
            kinds = set(sandboxes.values())
            differences = canonical_differences(limits, hardware, workers=workers, sandboxes=kinds)
            self._write(
                replace(
                    self.manifest,
                    options=options,
                    settings=merge(self.manifest.settings, comparable),
                    sessions=(*self.manifest.sessions, session),
                    canonical=Canonical.combine(self.manifest.canonical, [*differences, *model_differences(settings)]),
                )
            )
        except BaseException:
            self._lock.release()
            raise

    def _changes(self, comparable: Mapping[str, Any], *, allowed: bool) -> tuple[str, ...]:
        """Return how the settings differ from the group's. Raises UsageError if its runs would not be comparable."""
        version = self.manifest.settings.get("bench_version", FIRST)
        if self.manifest.settings and version != self._version:
            raise UsageError(
                f"run group {self.folder} is for version {version[1:]} of the benchmark, not {self._version[1:]}: "
                "their results cannot be mixed; name another --run-group"
            )
        changed = changes(self.manifest.settings, comparable)
        if changed and not allowed:
            raise UsageError(
                f"run group {self.folder} was created with other settings:\n  "
                + "\n  ".join(changed)
                + "\nrestore them, name another --run-group, or add --allow-changes to mix them in one group"
            )
        return changed

    def plan(self, runs: Iterable[PlannedRun]) -> None:
        """Add runs to the plan. Known ones are ignored, since every worker reports the same runs."""
        known = self.manifest.keys
        added = tuple({run.key: run for run in runs if run.key not in known}.values())
        if added:
            settings = merge(self.manifest.settings, {"competitions": self._competitions(added)})
            self._write(replace(self.manifest, runs=(*self.manifest.runs, *added), settings=settings))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self, reader: GroupReader | None = None) -> RunGroup | None:
        """Write the group's metadata, grading report and page, complete its manifest, and release the group.

        ``reader`` has read the group's records already. Returns None for an empty new group. If writing fails, this
        reports a warning and returns None: each run's own record exists already.
        """
        if self._is_new and not self.manifest.runs:
            self._discard()
            return None
        reader = reader or self.reader
        try:
            records = reader.records()
            if records:
                write_group(self.folder, self.manifest.created_at, records)
            self._complete(records)
            group = reader.read()
            (self.folder / REPORT).write_text(self._page(group), encoding="utf-8")
        except (OSError, UsageError) as error:
            why = unusable(error) if isinstance(error, OSError) else str(error)
            self._reporter(WarningNote(f"the run group's reports cannot be written: {why}"))
            return None
        finally:
            self._lock.release()
        return group

    def _discard(self) -> None:
        """Remove a group that this session created without planning runs, for example because it failed to start.

        Files that others put into its folder stay, and so does the folder.
        """
        self._lock.release()
        with suppress(OSError):
            if has_guard(self.folder):
                (self.folder / CONFTEST).unlink()
            for name in (MANIFEST, EVENTS, WORKERS, LOCK):
                (self.folder / name).unlink(missing_ok=True)
            self.folder.rmdir()

    def _complete(self, records: Sequence[RunRecord]) -> None:
        """Complete the manifest."""
        *earlier, current = self.manifest.sessions
        ended = replace(current, ended_at=datetime.now(UTC).isoformat())
        is_done = self.manifest.keys <= {record.key for record in records}
        self._write(
            replace(
                self.manifest.with_records(records),
                sessions=(*earlier, ended),
                twins=self._twins if is_done else self.manifest.twins,
            )
        )

    def _competitions(self, runs: Iterable[PlannedRun]) -> dict[str, dict[str, Any]]:
        files = {run.competition_id: self._competition_file(run.nodeid) for run in runs}
        return {id: about_competition(file, self._version, is_twin=bool(self._twins)) for id, file in files.items()}

    def _write(self, manifest: Manifest) -> None:
        self.manifest = manifest
        try:
            manifest.write(self.folder)
        except OSError as error:
            raise UsageError(f"{self.folder} cannot be written: {error.strerror}") from error


_STARTED = frozenset({EVENTS, LOCK, WORKERS})
"""Files that a session writes to a new run group before its manifest."""
_HARMLESS = re.compile(rf"\.({re.escape(MANIFEST)}|{re.escape(CONFTEST)})\.\d+|\.gitkeep|\.DS_Store|.*\.(log|out|err)")
"""Other files that a new run group may have: what a killed session left, placeholders, and logs."""


def _check_place(folder: Path) -> None:
    """Check that a folder is a run group, or can become one: pytest collects nothing in it then. Raises UsageError."""
    check_group_name(folder.name)
    real = real_path(folder)
    if (group := group_of(real)) is not None and group != real:
        raise UsageError(f"{folder} is in the run group {group}: name a folder outside of it")
    if group is not None or not folder.is_dir():
        return
    known = {*_STARTED, CONFTEST} if has_guard(folder) else _STARTED
    try:
        others = {path.name for path in folder.iterdir() if not _HARMLESS.fullmatch(path.name)} - known
    except OSError as error:
        raise UsageError(unusable(error)) from error
    if others:
        shown = min(others, key=lambda name: (name.startswith("."), name))
        raise UsageError(f"{folder} is not a run group: it contains other files, such as {shown}; name a new folder")
    if Path.cwd().is_relative_to(real):
        raise UsageError(f"{folder} is the current folder, or contains it; name a new folder for the run group")


def check_group_name(name: str) -> None:
    """Check the name of a run group's folder. Raises UsageError."""
    if name in ("", ".", "..") or "/" in name or not name.isprintable() or len(name.encode()) > _MAX_NAME_BYTES:
        raise UsageError(f"{name!r:.100} cannot be the name of a run group: name a folder, without a path")


def make_folder(folder: Path) -> None:
    """Create a folder for run groups if it is missing. Raises UsageError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        why = "Not a directory" if isinstance(error, FileExistsError) else error.strerror
        raise UsageError(f"{folder} cannot be written: {why}") from error


def make_runs_dir(folder: Path) -> None:
    """Create the folder of all run groups if it is missing, and make Git ignore its content. Raises UsageError."""
    if folder.exists():
        return
    make_folder(folder)
    with suppress(OSError):  # a full disk: the first run reports it
        (folder / ".gitignore").write_text("# Run groups. Delete this file to commit them.\n*\n", encoding="utf-8")


def _locked(folder: Path, advice: str = "") -> AcquireReturnProxy[FileLock]:
    """Lock a group, so that no other session writes it meanwhile. Raises UsageError if another session holds it.

    The result is a context manager that releases the lock at its end.
    """
    try:
        return FileLock(folder / LOCK).acquire(blocking=False)
    except Timeout as error:
        raise UsageError(f"run group {folder} is in use by another session; wait for its end{advice}") from error
    except OSError as error:
        raise UsageError(f"{folder} cannot be written: {reason(error)}") from error


def hold_as_worker(folder: Path) -> int | None:
    """Make the next session wait until this worker process has ended. Returns the descriptor to keep open for that.

    A worker may outlive a killed session for some seconds, and finish a run in that time.
    """
    try:
        descriptor = os.open(folder / WORKERS, os.O_RDWR | os.O_CREAT, 0o644)
        fcntl.flock(descriptor, fcntl.LOCK_SH)
    except OSError:  # a file system without such locks: a run that is done twice counts once
        return None
    return descriptor


def _await_workers(folder: Path, reporter: Reporter) -> None:
    with (folder / WORKERS).open("w") as file:
        deadline, reported = time.monotonic() + _WAIT_FOR_WORKERS_SECONDS, False
        while True:
            try:
                return fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise UsageError(
                        f"workers of an earlier session still run in {folder}: wait for their end, or end them"
                    ) from None
            except OSError:
                return None
            if not reported:
                reporter(Note("waiting for the workers of a session that was killed"))
                reported = True
            time.sleep(0.2)


def about_competition(file: Path, version: str, *, is_twin: bool) -> dict[str, Any]:
    """Return a competition's split, category and version, and the digest of the files that define data and grades."""
    try:
        competition = Competition.load(file, version=version)
    except CompetitionError:  # it is missing or invalid now
        return {"digest": None}
    folder = competition.folder
    return {
        "split": split_label(competition.split, competition.version, is_twin=is_twin),
        "category": competition.category,
        "version": competition.version,
        "digest": folder_digest(folder, [path.relative_to(folder).as_posix() for path in competition.files]),
    }


_NAMED = (MANIFEST, METADATA, f"*/{RECORD}", REGRADED)
"""The files that contain the group's name, as ``run_group``."""


def existing_group(name: str, runs_dir: Path) -> Path:
    """Return the run group with exactly this name, or at this path. Raises UsageError."""
    for folder in (runs_dir / name, Path(name)):
        if name and (folder / MANIFEST).is_file() and is_group(folder):
            return folder.resolve()
    known = ", ".join(path.name for path in group_folders(runs_dir)[-5:]) or "none"
    raise UsageError(f"there is no run group {name!r} below {runs_dir}; the latest are: {known}")


def rename_group(folder: Path, name: str) -> Path:
    """Rename a run group, also in its records and manifest. Returns its new folder.

    If a group's folder was renamed by hand, or renaming was interrupted, renaming it to its current name makes it
    consistent. Raises UsageError if the name is taken or invalid, or the group is in use.
    """
    check_group_name(name)
    target = folder.with_name(name)
    if target != folder and (target.exists() or target.is_symlink()):
        raise UsageError(f"{target} exists: choose another name")
    with _locked(folder):
        _check_idle(folder)
        try:
            if target != folder:
                folder.rename(target)
            for path in [path for pattern in _NAMED for path in sorted(target.glob(pattern))]:
                _set_name(path, name)
            (target / REPORT).unlink(missing_ok=True)  # it shows the old name; `mlebench report` recreates it
        except OSError as error:
            raise UsageError(f"{folder} cannot be renamed: {unusable(error)}") from error
        except ValueError as error:
            raise UsageError(f"{target} was renamed, but a file cannot be read: {error}") from error
    return target


def _set_name(path: Path, name: str) -> None:
    """Set the group's name in a file. Raises ValueError if it is not JSON of a run group."""
    try:
        values: Any = loads(path.read_bytes())
    except ValueError as error:
        raise ValueError(f"{path}: {reason(error)}") from error
    if not isinstance(values, dict):
        raise ValueError(f"{path}: it must be an object")
    if values.get("run_group") != name:
        write_json(path, {**values, "run_group": name})


def delete_group(folder: Path) -> None:
    """Delete a run group with everything in it. Raises UsageError if it is in use, or cannot be deleted."""
    with _locked(folder):
        _check_idle(folder)
        try:
            remove_tree(folder, ignore_errors=False)
        except OSError as error:
            raise UsageError(f"{folder} cannot be deleted: {unusable(error)}") from error


def _check_idle(folder: Path) -> None:
    """Raise UsageError if runs of a group are in progress: jobs continue without a session, which has the lock."""
    if running := [run.run_dir.name for run in runs_in_progress(folder) if not run.interrupted]:
        raise UsageError(
            f"run group {folder} has {pluralize(len(running), 'run')} in progress, such as {running[0]}; wait for the "
            f"end, or end the group's jobs with `mlebench stop {shlex.quote(str(folder))}`"
        )


def annotate_group(folder: Path, text: str) -> None:
    """Set the note at the top of a group's report. Raises UsageError."""
    with _locked(folder):
        manifest = Manifest.read(folder)
        if manifest is None:
            raise UsageError(f"{folder} has no {MANIFEST}")
        try:
            replace(manifest, options={**manifest.options, "--note": text}).write(folder)
        except OSError as error:
            raise UsageError(f"{folder} cannot be written: {unusable(error)}") from error
