"""What control groups, of version 1 or 2, say of a process: its limit on memory, and how many were killed for that."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_ROOT = Path("/sys/fs/cgroup")
_NO_LIMIT = 1 << 60
"""Version 1 says so with a number near the largest."""


def oom_events(pid: int, root: Path = _ROOT) -> Path | None:
    """The file that counts which processes of this one's group were killed for memory."""
    for folder in _memory_groups(pid, root):
        for name in ("memory.events", "memory.oom_control"):
            if (folder / name).exists():
                return folder / name
        return None
    return None


def oom_kills(events: Path) -> int:
    """How many those are; raises OSError, ValueError or KeyError where the file does not say, or is gone."""
    return int(dict(line.split() for line in events.read_text().splitlines())["oom_kill"])


def memory_limit(pid: int, root: Path = _ROOT) -> int | None:
    """Bytes that the groups around a process may use; None without a limit, as in the session of a login."""
    found = []
    for folder in _memory_groups(pid, root):
        for name in ("memory.max", "memory.limit_in_bytes"):
            with suppress(OSError, ValueError):  # no such file, or "max"
                found.append(int((folder / name).read_text()))
    return min((limit for limit in found if limit < _NO_LIMIT), default=None)


def delegated(root: Path = _ROOT) -> bool:
    """Whether the user's systemd may make groups of version 2 that limit memory, processors and processes.

    Only for a process in a login's session, whose groups stay in the same slice. A batch system's job has a group of
    its own, which nothing may leave.
    """
    slice_ = f"user.slice/user-{os.getuid()}.slice"
    with suppress(OSError):
        ours = any(line.startswith(f"0::/{slice_}/") for line in Path("/proc/self/cgroup").read_text().splitlines())
        controllers = (root / slice_ / f"user@{os.getuid()}.service/cgroup.controllers").read_text().split()
        return ours and {"memory", "cpu", "pids"} <= set(controllers)
    return False


def _memory_groups(pid: int, root: Path) -> Iterator[Path]:
    """The folder of a process's group, and of those around it."""
    with suppress(OSError, ValueError):
        for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            base = root if not controllers else root / "memory"
            if (controllers and "memory" not in controllers.split(",")) or not (base / path.lstrip("/")).is_dir():
                continue
            folder = base / path.lstrip("/")
            if not controllers and not (base / "cgroup.controllers").exists():
                continue  # version 1, beside an empty version 2
            yield from (folder, *(parent for parent in folder.parents if parent.is_relative_to(base)))
            return
