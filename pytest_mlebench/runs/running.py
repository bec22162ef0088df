"""Runs in progress, as others can see them: a file in the run directory that its process refreshes."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from pytest_mlebench.runs.json_files import read_json, write_json
from pytest_mlebench.runs.layout import RECORD, RUNNING
from pytest_mlebench.runs.record import RunKey
from pytest_mlebench.sandbox.owner import is_dead, owner_labels

_REFRESH = 5.0
_LOST_AFTER = 60.0
"""Seconds without a refresh after which a run on another host counts as interrupted; clocks may differ a little."""


@dataclass(frozen=True, kw_only=True)
class RunInProgress:
    """A run that was started and has no record yet. Times in seconds, ``started`` since the epoch."""

    competition_id: str
    agent: str
    seed: int
    worker: str
    started: float
    time_limit: float
    owner: Mapping[str, str]
    run_dir: Path = Path()
    interrupted: bool = False
    """Its process is gone, so there will be no record."""

    @property
    def key(self) -> RunKey:
        return RunKey(self.agent, self.competition_id, self.seed)


@contextmanager
def shown_as_running(run_dir: Path, key: RunKey, *, worker: str, time_limit: float) -> Iterator[None]:
    """Show a run to others while the block works; after an exception it stays, to be seen as interrupted."""
    path = run_dir / RUNNING
    about = {"worker": worker, "started": time.time(), "time_limit": time_limit, "owner": owner_labels()}
    write_json(path, {**key._asdict(), **about})
    stop = threading.Event()

    def refresh() -> None:
        while not stop.wait(_REFRESH):
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
    """The runs of a group without a record, by start."""
    found = []
    for path in group_dir.glob(f"*/{RUNNING}"):
        if (path.parent / RECORD).exists():
            continue
        try:
            run = read_json(path, RunInProgress)
            unrefreshed = time.time() - path.stat().st_mtime
        except (OSError, ValueError):  # it ended just now, or is not ours
            continue
        interrupted = is_dead(run.owner) or unrefreshed > _LOST_AFTER
        found.append(replace(run, run_dir=path.parent, interrupted=interrupted))
    return sorted(found, key=lambda run: (run.started, run.run_dir.name))
