"""The session's run group on disk: opened by one session at a time, planned, closed; a later one goes on with it."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from pytest_mlebench import __version__
from pytest_mlebench.catalog.competition import FILE_NAME, Competition
from pytest_mlebench.errors import CompetitionError, UsageError
from pytest_mlebench.items import key_of
from pytest_mlebench.results.manifest import (
    Manifest,
    canonical_differences,
    changes,
    folder_digest,
    library_versions,
    merge,
)
from pytest_mlebench.results.record import RunRecord
from pytest_mlebench.sandbox.hardware import this_machine
from pytest_mlebench.sandbox.owner import owner_labels
from pytest_mlebench.settings import Settings

_WORKERS = ".workers"
_PATIENCE = 120.0
"""Seconds that workers get to end themselves whose session was killed; they stop their agents first."""
_COMPETITION_FILES = (FILE_NAME, "description.md", "prepare.py", "grade.py")


class OpenRunGroup:
    """A run group that this session writes into. No other session can open it before ``close``, or our death."""

    def __init__(
        self, settings: Settings, *, workers: int, sandboxes: Mapping[str, str], tell: Callable[[str], None]
    ) -> None:
        """Make the group or go on with it; ``sandboxes`` is the kind each agent gets, ``tell`` is told of waiting.

        Raises UsageError where another session has it, and where it was made with other settings, which are listed.
        """
        self._settings = settings
        self.folder = settings.run_group.folder
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._lock = FileLock(self.folder / ".lock")
            self._lock.acquire(blocking=False)
        except Timeout as error:
            raise UsageError(
                f"run group {self.folder} is in use by another session; wait for its end, or name another group"
            ) from error
        except OSError as error:
            raise UsageError(f"{self.folder} cannot be written: {error.strerror}") from error
        try:
            _await_workers(self.folder, tell)
            self._open(workers, sandboxes)
        except BaseException:
            self._lock.release()
            raise

    def _open(self, workers: int, sandboxes: Mapping[str, str]) -> None:
        settings, now = self._settings, datetime.now(UTC).isoformat()
        known = Manifest.read(self.folder)
        self.manifest = known or Manifest(run_group=settings.run_group.name, created_at=now)
        common = self._common_settings(sandboxes)
        common["competitions"] = self._competitions(self.manifest.runs)
        changed = changes(self.manifest.settings, common)
        if changed and not settings.allow_changes:
            raise UsageError(
                f"run group {self.folder} was made with other settings:\n  "
                + "\n  ".join(changed)
                + "\nrestore them, name another --run-group, or add --allow-changes to mix them in one group"
            )
        hardware = this_machine()
        differences = canonical_differences(
            settings.limits, hardware, workers=workers, sandboxes=set(sandboxes.values())
        )
        before = self.manifest.canonical.get("differences", [])
        differences = [*before, *(text for text in differences if text not in before)]
        self.manifest.canonical = {"is_canonical": not differences, "differences": differences}
        self.manifest.options = settings.options
        self.manifest.settings = merge(self.manifest.settings, common)
        self.manifest.sessions.append(
            {
                "started_at": now,
                "ended_at": None,
                "workers": workers,
                "hardware": asdict(hardware),
                "libraries": library_versions(),
                "owner": owner_labels(),
                "changes": changed,
            }
        )
        self._write()

    def plan(self, nodeids: Iterable[str]) -> None:
        """Note which runs were asked for."""
        keys = ((nodeid, key_of(nodeid)) for nodeid in nodeids)
        added = self.manifest.plan({**key._asdict(), "nodeid": nodeid} for nodeid, key in keys if key is not None)
        if added:  # each worker tells the same
            competitions = {"competitions": self._competitions(added)}
            self.manifest.settings = merge(self.manifest.settings, competitions)
            self._write()

    def close(self, records: Iterable[RunRecord]) -> None:
        """Complete the manifest, and let others have the group."""
        self.manifest.summarise(records)
        self.manifest.sessions[-1]["ended_at"] = datetime.now(UTC).isoformat()
        self._write()
        self._lock.release()

    def _competitions(self, runs: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
        files = {run["competition_id"]: self._settings.find(run["nodeid"]) for run in runs}
        return {id: _competition(file) for id, file in files.items()}

    def _write(self) -> None:
        try:
            self.manifest.write(self.folder)
        except OSError as error:
            raise UsageError(f"{self.folder} cannot be written: {error.strerror}") from error

    def _common_settings(self, sandboxes: Mapping[str, str]) -> dict[str, Any]:
        settings = self._settings
        return {
            "version": __version__,
            "agents": {
                agent.id: {**agent.describe(), "sandbox": sandboxes[agent.id], "digest": folder_digest(agent.folder)}
                for agent in settings.agents
            },
            "limits": asdict(settings.limits),
            "description": settings.description,
            "max_submission_size": settings.run_group.max_submission_bytes,
            **settings.container_settings,
        }


def join(folder: Path) -> int | None:
    """As a worker: keep the next session waiting until this process has ended; returns what to keep open for that.

    A worker outlives a session that was killed for some seconds, in which it may still finish a run.
    """
    try:
        descriptor = os.open(folder / _WORKERS, os.O_RDWR | os.O_CREAT, 0o644)
        fcntl.flock(descriptor, fcntl.LOCK_SH)
    except OSError:  # a file system without such locks: a run that is done twice counts once
        return None
    return descriptor


def _await_workers(folder: Path, tell: Callable[[str], None]) -> None:
    with (folder / _WORKERS).open("w") as file:
        deadline, told = time.monotonic() + _PATIENCE, False
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise UsageError(
                        f"workers of an earlier session still run in {folder}: wait for their end, or end them"
                    ) from None
            except OSError:
                return
            else:
                return
            if not told:
                tell("waiting for the workers of a session that was killed")
                told = True
            time.sleep(0.2)


def _competition(file: Path) -> dict[str, Any]:
    """Where a competition belongs, and version and digest of what decides its data and grades."""
    try:
        competition = Competition.load(file)
    except CompetitionError:  # it is gone, or broken by now
        return {"digest": None}
    return {
        "split": competition.split,
        "category": competition.category,
        "version": competition.version,
        "digest": folder_digest(file.parent, _COMPETITION_FILES),
    }
