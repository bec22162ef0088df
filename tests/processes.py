"""The processes of one test, among all of this machine."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import psutil


def processes_of(folder: Path) -> list[psutil.Process]:
    """The living processes whose environment names the folder, as that of each agent of the local sandbox does."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            if process.status() != psutil.STATUS_ZOMBIE and any(
                str(folder) in value for value in process.environ().values()
            ):
                found.append(process)
    return found


def commands_of(folder: Path) -> list[str]:
    """Their command lines."""
    lines = []
    for process in processes_of(folder):
        with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            lines.append(" ".join(process.cmdline()))
    return lines
