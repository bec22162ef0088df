"""Whose a container or a temporary folder is: enough to know, later, that its session is dead."""

from __future__ import annotations

import os
import re
import signal
import socket
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from types import FrameType

LABEL = "mlebench."
_BOOT = Path("/proc/sys/kernel/random/boot_id")


@cache
def _here() -> tuple[str, str, str]:
    """Host name, boot and process namespace: process numbers mean nothing elsewhere."""
    return socket.gethostname(), _BOOT.read_text().strip(), str(Path("/proc/self/ns/pid").readlink())


def owner_labels() -> dict[str, str]:
    """Labels that name this process, on this machine, since its last start."""
    host, boot, namespace = _here()
    pid = os.getpid()
    values = {"host": host, "boot": boot, "pid-namespace": namespace, "pid": pid, "pid-start": start_time(pid)}
    return {LABEL + key: str(value) for key, value in values.items()}


def is_dead(labels: Mapping[str, str]) -> bool:
    """Whether the process that these labels name runs no more; False where that cannot be known from here."""
    host, boot, namespace = _here()
    if labels.get(f"{LABEL}host") != host:
        return False
    if labels.get(f"{LABEL}boot") != boot:
        return f"{LABEL}boot" in labels
    if labels.get(f"{LABEL}pid-namespace") != namespace or not labels.get(f"{LABEL}pid", "").isdecimal():
        return False
    return start_time(int(labels[f"{LABEL}pid"])) != labels.get(f"{LABEL}pid-start")


def start_time(pid: int) -> str:
    """When a process started, in clock ticks since boot; empty where there is none (numbers are used again)."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    state, *fields = stat.rpartition(")")[2].split()
    return "" if state in "ZX" else fields[18]


def owned(prefix: str) -> str:
    """The beginning of a temporary folder's name that says which process it belongs to (see ``dead_folders``)."""
    return f"{prefix}{os.getpid()}-{start_time(os.getpid())}-"


def dead_folders(prefix: str, bases: Iterable[Path]) -> list[Path]:
    """This user's folders below ``bases`` with ``owned(prefix)`` names whose processes have ended."""
    name = re.compile(rf"{re.escape(prefix)}(?P<pid>\d+)-(?P<start>\d+)-")
    found = []
    for base in set(bases):
        for folder in base.glob(f"{prefix}*"):
            match = name.match(folder.name)
            if match is None or start_time(int(match["pid"])) == match["start"]:
                continue
            with suppress(FileNotFoundError):  # another session removes it
                if folder.lstat().st_uid == os.getuid() and not folder.is_symlink():
                    found.append(folder)
    return sorted(found)


@contextmanager
def sigterm_interrupts() -> Iterator[None]:
    """Within, SIGTERM raises KeyboardInterrupt (in the main thread, unless somebody else already handles it)."""
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt("SIGTERM")
