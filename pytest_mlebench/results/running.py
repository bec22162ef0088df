"""Runs in progress, as others can see them: a file in the run directory that its process refreshes."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_mlebench.results.record import RECORD, RunKey, write_json
from pytest_mlebench.sandbox.owner import is_dead, owner_labels

RUNNING = "running.json"
_REFRESH = 5.0
_LOST_AFTER = 60.0
"""Seconds without a refresh after which a run on another host counts as interrupted; clocks may differ a little."""


@dataclass(frozen=True, kw_only=True)
class RunInProgress:
    """A run that was started and has no record yet. ``interrupted``: its process is gone, so there will be none."""

    run_dir: Path
    competition_id: str
    agent: str
    seed: int
    worker: str
    started: float
    """Seconds since the epoch."""
    time_limit: float
    interrupted: bool

    @property
    def key(self) -> RunKey:
        return RunKey(self.agent, self.competition_id, self.seed)


@contextmanager
def shown_as_running(
    run_dir: Path, *, competition_id: str, agent: str, seed: int, worker: str, time_limit: float
) -> Iterator[None]:
    """Show the run while the block works; after an exception it stays there, to be seen as interrupted."""
    path = run_dir / RUNNING
    about = {
        "competition_id": competition_id,
        "agent": agent,
        "seed": seed,
        "worker": worker,
        "started": time.time(),
        "time_limit": time_limit,
        "owner": owner_labels(),
    }
    write_json(path, about)
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
            values: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            silent = time.time() - path.stat().st_mtime
            found.append(
                RunInProgress(
                    run_dir=path.parent,
                    competition_id=values["competition_id"],
                    agent=values["agent"],
                    seed=values["seed"],
                    worker=values["worker"],
                    started=values["started"],
                    time_limit=values["time_limit"],
                    interrupted=is_dead(values["owner"]) or silent > _LOST_AFTER,
                )
            )
        except (OSError, ValueError, KeyError, TypeError, AttributeError):  # ended just now, or is not ours
            continue
    return sorted(found, key=lambda run: (run.started, run.run_dir.name))
