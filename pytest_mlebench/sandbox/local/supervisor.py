"""Starts an agent as a local process, watches its limits, and leaves none of its processes behind.

It is a separate program that uses only the standard library. If the harness dies for any reason, its end of the pipe on
standard input closes, and the agent and its home are removed. If this program is killed as well, as an engine may do
with a job, an independent second process does the same (see ``_guard``). Standard input: a line of JSON (see ``main``),
later perhaps ``stop``. Standard output: a line of JSON once no process is left.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import math
import os
import resource
import select
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
_MIN_SECONDS = 0.01
_BYTES_PER_SECOND = 4e9
"""How fast processes may use up memory: the less is left, the sooner the next check."""
_QUIET_ROUNDS = 3
_SWEEP_SECONDS = 10.0
_CGROUP_1, _CGROUP_2 = Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")
"""Root folders of the control groups that limit memory, in versions 1 and 2."""
_STOP_SHARE = 0.95
"""If this program checks memory itself, it stops an agent at this share of the limit, as usage grows between checks."""


def main() -> None:
    """Run ``command`` in ``home`` with ``environment``. Its output goes to the descriptor ``output``."""
    task: dict[str, Any] = json.loads(_first_line())
    # A system that ends a whole job signals each of its processes. This one continues until its harness has decided
    # about the run. Unlike an ignored signal, one with a handler is reset to its default for the agent.
    signal.signal(signal.SIGTERM, lambda number, frame: None)
    guard = _guard(task["home"])  # before this program adopts processes
    libc = ctypes.CDLL(None)
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)  # processes that the agent detaches become our children
    group = _memory_group(task)

    def confine() -> None:
        if group is not None:
            (group / "cgroup.procs").write_text(str(os.getpid()))
        # Files without write permission are read-only for root, too.
        libc.prctl(_PR_CAPBSET_DROP, _CAP_DAC_OVERRIDE, 0, 0, 0)
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)  # an engine may kill this program as well
        for name, value in task["rlimits"].items():
            if value is not None:
                with contextlib.suppress(ValueError, OSError):  # a hard limit below ours is kept
                    resource.setrlimit(getattr(resource, name), (math.ceil(value), math.ceil(value)))
        if task["cpus"]:
            os.sched_setaffinity(0, task["cpus"])

    started = time.monotonic()
    try:
        agent = subprocess.Popen(
            task["command"],
            cwd=task["home"],
            env=task["environment"],
            stdin=subprocess.DEVNULL,
            stdout=task["output"],
            stderr=task["output"],
            start_new_session=True,
            preexec_fn=confine,
        )
    except (OSError, subprocess.SubprocessError) as error:
        _remove_group(group)
        os.write(guard, b".")
        print(json.dumps({"error": getattr(error, "strerror", None) or str(error)}))
        return
    os.close(task["output"])
    reason = _watch(agent, task, started, checks_memory=group is None)
    left_behind = _stop(agent, task["grace"] if reason else 0)
    seconds = time.monotonic() - started
    oom_kills = _remove_group(group)
    os.write(guard, b".")
    if reason == "harness died":
        _remove(task["home"])
        return
    result = {
        "exit_code": agent.returncode,
        "reason": reason,
        "seconds": seconds,
        "left_behind": left_behind,
        "oom_kills": oom_kills,
    }
    print(json.dumps(result), flush=True)


def _remove(home: str) -> None:
    """Remove the agent's files, however deep its folders are: ``shutil.rmtree`` opens all on the way, and recurses."""
    with contextlib.suppress(OSError):
        quiet = subprocess.DEVNULL
        subprocess.run(["rm", "-rf", "--", home], stdin=quiet, stdout=quiet, stderr=quiet, check=False)


def _guard(home: str) -> int:
    """Start a daemon that waits for the end of this program, and then kills the agent's remaining processes.

    It finds them by ``home`` in their environment. Returns a descriptor; a byte written to it says that nothing is
    left. If a job is killed without control groups, an agent's children would otherwise survive: their parents are
    gone, so they cannot be found as descendants.
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
        os.closerange(1, 4096)  # a reader of our output must not wait for the daemon to end
        if not os.read(0, 1):
            _sweep(os.fsencode(home))
            if not _status(harness):  # a living harness still collects the files
                _remove(home)
    finally:
        os._exit(0)


def clean_up(task: Mapping[str, Any]) -> None:
    """Remove what a killed supervisor left: processes, and the control group."""
    _sweep(os.fsencode(task["home"]), seconds=_SWEEP_SECONDS)
    if (group := _group(task)).is_dir():
        _remove_group(group)


def _sweep(home: bytes, seconds: float = math.inf) -> None:
    """Kill all processes whose environment names the folder, until none are left: they may start others meanwhile."""
    quiet, deadline = 0, time.monotonic() + seconds
    while quiet < _QUIET_ROUNDS and time.monotonic() < deadline:
        found = [
            int(folder.name) for folder in Path("/proc").iterdir() if folder.name.isdigit() and _mentions(folder, home)
        ]
        quiet = 0 if found else quiet + 1
        for pid in found:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_POLL_SECONDS)


def _mentions(process: Path, home: bytes) -> bool:
    try:
        return b"=" + home + b"/" in (process / "environ").read_bytes()
    except OSError:  # it ended, or belongs to another user
        return False


def _first_line() -> bytes:
    """Read up to the line feed and no further, because ``select`` does not see what a buffer holds."""
    line = b""
    while not line.endswith(b"\n"):
        byte = os.read(0, 1)
        if not byte:
            sys.exit("no task on standard input")
        line += byte
    return line


def _memory_group(task: dict[str, Any]) -> Path | None:
    """Create a control group in which the kernel limits memory; None if this process may not create one."""
    limit = task["memory"]
    if limit is None:
        return None
    group = _group(task)
    total, with_swap = "memory.max", "memory.swap.max"
    if _CGROUP_1.is_dir():
        total, with_swap = "memory.limit_in_bytes", "memory.memsw.limit_in_bytes"
    try:
        if not _CGROUP_1.is_dir() and "memory" not in (_CGROUP_2 / "cgroup.subtree_control").read_text().split():
            (_CGROUP_2 / "cgroup.subtree_control").write_text("+memory")
        group.mkdir()
    except OSError:
        return None
    try:
        (group / total).write_text(str(math.ceil(limit)))
        if (group / with_swap).exists():
            (group / with_swap).write_text(str(math.ceil(limit)) if _CGROUP_1.is_dir() else "0")
    except OSError:
        _remove_group(group)
        return None
    return group


def _group(task: Mapping[str, Any]) -> Path:
    return Path(_CGROUP_1 if _CGROUP_1.is_dir() else _CGROUP_2, task["memory_group"])


def _remove_group(group: Path | None) -> int:
    """Remove a control group without processes. Returns how many processes the kernel killed in it for memory."""
    kills = 0
    if group is not None:
        for name in ("memory.oom_control", "memory.events"):
            with contextlib.suppress(OSError, ValueError, KeyError):
                kills = int(dict(line.split() for line in (group / name).read_text().splitlines())["oom_kill"])
        for _ in range(100):
            with contextlib.suppress(OSError):  # the last process is still exiting
                group.rmdir()
                break
            time.sleep(0.01)
    return kills


def _watch(agent: subprocess.Popen[bytes], task: dict[str, Any], started: float, *, checks_memory: bool) -> str:
    """Wait for the agent to end. Returns the reason to stop it earlier, or an empty string.

    ``checks_memory``: nothing else enforces the limit on memory.
    """
    memory = task["memory"] if checks_memory else None
    while agent.poll() is None:
        if time.monotonic() - started > task["time_limit"]:
            return "timed out"
        pause = _POLL_SECONDS
        if memory is not None:
            if (used := _memory_in_use()) > memory * _STOP_SHARE:
                used = _memory_in_use(exactly=True)
            if used > memory * _STOP_SHARE:
                return "out of memory"
            pause = min(pause, max(_MIN_SECONDS, (memory * _STOP_SHARE - used) / _BYTES_PER_SECOND))
        readable, _, _ = select.select([0], [], [], pause)
        if readable:
            return "stopped" if os.read(0, 100) else "harness died"
        _reap(agent)
    return ""


def _stop(agent: subprocess.Popen[bytes], grace: float) -> int:
    """End all remaining processes, with SIGTERM first if there is a grace period. Returns how many the agent left."""
    left_behind = len(_descendants() - {agent.pid})
    if grace and _descendants():
        _signal(signal.SIGTERM)
        deadline = time.monotonic() + grace
        while time.monotonic() < deadline and _alive(agent):
            time.sleep(0.02)
    while _alive(agent):  # a process may start others while we kill
        _signal(signal.SIGKILL)
        time.sleep(0.01)
    agent.wait()
    return left_behind


def _alive(agent: subprocess.Popen[bytes]) -> bool:
    agent.poll()
    _reap(agent)
    return bool(_descendants())


def _signal(number: int) -> None:
    for pid in _descendants():
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def _reap(agent: subprocess.Popen[bytes]) -> None:
    """Reap adopted children. ``Popen`` reaps the agent itself."""
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) and ended.si_pid != agent.pid:
            os.waitpid(ended.si_pid, os.WNOHANG)


def _children() -> dict[int, list[int]]:
    """Return the ids of the machine's processes, by their parent's."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and (status := _status(folder.name)):
            children.setdefault(int(status[1]), []).append(int(folder.name))
    return children


def _status(pid: int | str) -> list[bytes]:
    """Return the state, the parent and the following fields of ``/proc/PID/stat``; empty if the process is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return []


def _descendants() -> KeysView[int]:
    """Return all living descendants of this process, without zombies, parents before their children.

    A shell that waits for a child and handles SIGTERM must receive it before the child ends.
    """
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
    """Return the bytes of memory that the agent's processes hold: private, and shared without a file.

    Shared memory counts once per process, unless ``exactly``, which takes the kernel longer.
    """
    kinds = (b"Pss_Anon:", b"Pss_Shmem:") if exactly else (b"RssAnon:", b"RssShmem:")
    file = "smaps_rollup" if exactly else "status"
    total = 0
    for pid in _descendants():
        with contextlib.suppress(OSError, ValueError):
            lines = Path(f"/proc/{pid}/{file}").read_bytes().split(b"\n")  # the name may have other line breaks
            total += sum(int(line.split()[1]) << 10 for line in lines if line.startswith(kinds))
    return total


if __name__ == "__main__":
    main()
