"""Starts an agent as a local process, watches its limits, and leaves none of its processes behind.

A program of its own, on the standard library alone: when the harness dies, however it dies, its end of the pipe on
standard input closes, and the agent and its home go too. When this program is killed as well, as an engine may do with
a job, a second process that is no relative of it does the same (see ``_guard``). Standard input: a line of JSON (see
``main``), later perhaps ``stop``. Standard output: a line of JSON when nothing runs any more.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import math
import os
import resource
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import KeysView, Mapping
from pathlib import Path
from typing import Any

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_PR_CAPBSET_DROP = 24
_CAP_DAC_OVERRIDE = 1
_POLL_SECONDS = 0.1
_LEAST_SECONDS = 0.01
_BYTES_PER_SECOND = 4e9
"""How fast processes may take memory: the less is left, the sooner the next look."""
_QUIET_ROUNDS = 3
_SWEEP_SECONDS = 10.0
_ONE, _TWO = Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")
"""Where control groups are that limit memory, of version 1 and 2."""
_ENOUGH = 0.95
"""Where this program has to look, it stops an agent at this share of its memory: what it takes meanwhile counts too."""


def main() -> None:
    """Run ``command`` in ``home`` with ``environment``; its output goes to the descriptor ``output``."""
    task: dict[str, Any] = json.loads(_first_line())
    # Whoever ends a whole job asks its processes one by one; this one lives until its harness has said what becomes of
    # the run. Unlike an ignored signal, one with a handler is as usual again for the agent.
    signal.signal(signal.SIGTERM, lambda number, frame: None)
    guard = _guard(task["home"])  # before this program adopts processes
    libc = ctypes.CDLL(None, use_errno=True)
    if hasattr(libc, "prctl"):  # Linux: processes that the agent detaches become our children
        libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)

    def limit() -> None:
        if group is not None:
            (group / "cgroup.procs").write_text(str(os.getpid()))
        if hasattr(libc, "prctl"):  # also for root, files without write permission are read-only
            libc.prctl(_PR_CAPBSET_DROP, _CAP_DAC_OVERRIDE, 0, 0, 0)
            libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)  # an engine may kill this program as well
        _limit(task)

    group = _memory_group(task)

    started = time.monotonic()
    agent = subprocess.Popen(
        task["command"],
        cwd=task["home"],
        env=task["environment"],
        stdin=subprocess.DEVNULL,
        stdout=task["output"],
        stderr=task["output"],
        start_new_session=True,
        preexec_fn=limit,
    )
    os.close(task["output"])
    reason = _watch(agent, task, started, looking=group is None)
    left = _stop(agent, task["grace"] if reason else 0)
    seconds = time.monotonic() - started
    oom_kills = _remove_group(group)
    os.write(guard, b".")
    if reason == "harness died":
        shutil.rmtree(task["home"], ignore_errors=True)
        return
    result = {
        "exit_code": agent.returncode,
        "reason": reason,
        "seconds": seconds,
        "left_behind": left,
        "oom_kills": oom_kills,
    }
    sys.stdout.write(json.dumps(result) + "\n")
    sys.stdout.flush()


def _guard(home: str) -> int:
    """Start a daemon that waits for the end of this program, and then ends what it left: the agent's processes, found
    by the ``home`` that their environment names. Returns a descriptor; a byte written to it says that nothing is left.

    Where jobs are killed without control groups, an agent's children would live on: their parents are gone, so nobody
    finds them any more.
    """
    harness = os.getppid()
    reader, writer = os.pipe()
    if child := os.fork():
        os.close(reader)
        os.waitpid(child, 0)
        return writer
    os.setsid()
    if os.fork():
        os._exit(0)
    try:
        os.chdir("/")
        os.dup2(reader, 0)
        os.closerange(1, 4096)  # whoever waits for the end of our output must not wait for the daemon
        if not os.read(0, 1):
            _sweep(os.fsencode(home))
            if not _status(harness):  # which would collect what is there
                shutil.rmtree(home, ignore_errors=True)
    finally:
        os._exit(0)


def clean_up(task: Mapping[str, Any]) -> None:
    """Remove what a supervisor that was killed left: processes, and the control group."""
    _sweep(os.fsencode(task["home"]), seconds=_SWEEP_SECONDS)
    if (group := _group(task)).is_dir():
        _remove_group(group)


def _sweep(home: bytes, seconds: float = math.inf) -> None:
    """Kill all processes whose environment names the folder, until there are none: they may start others meanwhile."""
    quiet, deadline = 0, time.monotonic() + seconds
    while quiet < _QUIET_ROUNDS and time.monotonic() < deadline:
        found = [
            int(folder.name) for folder in Path("/proc").iterdir() if folder.name.isdigit() and _names(folder, home)
        ]
        quiet = 0 if found else quiet + 1
        for pid in found:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_POLL_SECONDS)


def _names(process: Path, home: bytes) -> bool:
    try:
        return b"=" + home + b"/" in (process / "environ").read_bytes()
    except OSError:  # it ended, or is somebody else's
        return False


def _first_line() -> bytes:
    """Up to the line feed and not a byte further: ``select`` does not see what a buffer holds."""
    line = b""
    while not line.endswith(b"\n"):
        byte = os.read(0, 1)
        if not byte:
            sys.exit("no task on standard input")
        line += byte
    return line


def _limit(task: dict[str, Any]) -> None:
    kinds = {
        "memory": resource.RLIMIT_DATA,
        "file_size": resource.RLIMIT_FSIZE,
        "cpu_seconds": resource.RLIMIT_CPU,
        "core": resource.RLIMIT_CORE,
    }
    for name, kind in kinds.items():
        value = task["limits"].get(name)
        if value is not None:
            with contextlib.suppress(ValueError, OSError):  # a hard limit below ours is kept
                resource.setrlimit(kind, (math.ceil(value), math.ceil(value)))
    if task["cpus"]:
        os.sched_setaffinity(0, task["cpus"])


def _memory_group(task: dict[str, Any]) -> Path | None:
    """A control group in which the kernel keeps the limit on memory; None where this process may make none."""
    limit = task["limits"].get("memory")
    if limit is None:
        return None
    group = _group(task)
    total, with_swap = "memory.max", "memory.swap.max"
    if _ONE.is_dir():
        total, with_swap = "memory.limit_in_bytes", "memory.memsw.limit_in_bytes"
    try:
        if not _ONE.is_dir() and "memory" not in (_TWO / "cgroup.subtree_control").read_text().split():
            (_TWO / "cgroup.subtree_control").write_text("+memory")
        group.mkdir()
    except OSError:
        return None
    try:
        (group / total).write_text(str(math.ceil(limit)))
        if (group / with_swap).exists():
            (group / with_swap).write_text(str(math.ceil(limit)) if _ONE.is_dir() else "0")
    except OSError:
        _remove_group(group)
        return None
    return group


def _group(task: Mapping[str, Any]) -> Path:
    return Path(_ONE if _ONE.is_dir() else _TWO, task["memory_group"])


def _remove_group(group: Path | None) -> int:
    """Remove a control group without processes; returns how many the kernel killed in it for memory."""
    kills = 0
    if group is not None:
        for name in ("memory.oom_control", "memory.events"):
            with contextlib.suppress(OSError, ValueError, KeyError):
                kills = int(dict(line.split() for line in (group / name).read_text().splitlines())["oom_kill"])
        for _ in range(100):
            with contextlib.suppress(OSError):  # the last process is still on its way out
                group.rmdir()
                break
            time.sleep(0.01)
    return kills


def _watch(agent: subprocess.Popen[bytes], task: dict[str, Any], started: float, *, looking: bool) -> str:
    """Wait for the agent's end; the reason to stop it before, or an empty string.

    ``looking``: nobody else keeps the limit on memory.
    """
    memory = task["limits"].get("memory") if looking else None
    while agent.poll() is None:
        if time.monotonic() - started > task["time_limit"]:
            return "timed out"
        pause = _POLL_SECONDS
        if memory is not None:
            if (used := _memory_in_use()) > memory * _ENOUGH:
                used = _memory_in_use(exactly=True)
            if used > memory * _ENOUGH:
                return "out of memory"
            pause = min(pause, max(_LEAST_SECONDS, (memory * _ENOUGH - used) / _BYTES_PER_SECOND))
        readable, _, _ = select.select([0], [], [], pause)
        if readable:
            return "stopped" if os.read(0, 100) else "harness died"
        _reap(agent)
    return ""


def _stop(agent: subprocess.Popen[bytes], grace: float) -> int:
    """End all processes that are left, first politely where there is a grace; returns how many there were."""
    left = len(_descendants() - {agent.pid})
    if grace and _descendants():
        _signal(signal.SIGTERM)
        deadline = time.monotonic() + grace
        while time.monotonic() < deadline and _alive(agent):
            time.sleep(0.02)
    while _alive(agent):  # a process may start others while we kill
        _signal(signal.SIGKILL)
        time.sleep(0.01)
    agent.wait()
    return left


def _alive(agent: subprocess.Popen[bytes]) -> bool:
    agent.poll()
    _reap(agent)
    return bool(_descendants())


def _signal(number: int) -> None:
    for pid in _descendants():
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def _reap(agent: subprocess.Popen[bytes]) -> None:
    """Take leave of adopted children; the agent itself is ``Popen``'s."""
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) and ended.si_pid != agent.pid:
            os.waitpid(ended.si_pid, os.WNOHANG)


def _children() -> dict[int, list[int]]:
    """All processes of the machine by their parent."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and (status := _status(folder.name)):
            children.setdefault(int(status[1]), []).append(int(folder.name))
    return children


def _status(pid: int | str) -> list[bytes]:
    """State, parent and what follows in ``/proc/PID/stat``; empty if the process is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return []


def _descendants() -> KeysView[int]:
    """All living processes that stem from this one (zombies are left out), parents before their children: a shell that
    waits for a child and handles SIGTERM must get it before the child ends."""
    children = _children()
    found: dict[int, None] = {}
    waiting = list(children.get(os.getpid(), ()))
    while waiting:
        pid = waiting.pop()
        waiting += children.get(pid, ())
        if (status := _status(pid)) and status[0] != b"Z":
            found[pid] = None
    return found.keys()


def _memory_in_use(*, exactly: bool = False) -> int:
    """Bytes that the agent's processes hold: their own, and what they share without a file.

    What several of them share counts for each, unless ``exactly``, which takes the kernel longer.
    """
    kinds = (b"Pss_Anon:", b"Pss_Shmem:") if exactly else (b"RssAnon:", b"RssShmem:")
    file = "smaps_rollup" if exactly else "status"
    total = 0
    for pid in _descendants():
        with contextlib.suppress(OSError, ValueError):
            lines = Path(f"/proc/{pid}/{file}").read_bytes().splitlines()
            total += sum(int(line.split()[1]) << 10 for line in lines if line.startswith(kinds))
    return total


if __name__ == "__main__":
    main()
