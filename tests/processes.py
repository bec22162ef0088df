"""Finds the processes that belong to one test."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import psutil


def processes_of(folder: Path) -> list[psutil.Process]:
    """Running processes with the folder in their environment, such as agents in the local sandbox."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            if process.status() != psutil.STATUS_ZOMBIE and any(
                str(folder) in value for value in process.environ().values()
            ):
                found.append(process)
    return found


def commands_of(folder: Path) -> list[str]:
    """Command lines of the running processes with the folder in their environment."""
    lines = []
    for process in processes_of(folder):
        with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            lines.append(" ".join(process.cmdline()))
    return lines
