"""The container of one agent: Apptainer as a child process, and the first process of a PID namespace below it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from pytest_mlebench.errors import SandboxError
from pytest_mlebench.extras.apptainer.program import environment, family
from pytest_mlebench.io.units import format_size
from pytest_mlebench.sandbox.limits import Watcher, memory_limit, oom_events, oom_kills
from pytest_mlebench.sandbox.redaction import LogWriter

_BLOCK = 1 << 16
_END_SECONDS = 20.0
_MAX_PAUSE_SECONDS, _MIN_PAUSE_SECONDS = 0.1, 0.01
_BYTES_PER_SECOND = 4e9
"""Maximum rate at which processes allocate memory: the less is left, the sooner the next check."""
_IN_MEMORY = "/dev/shm"
_STOP_SHARE = 0.95
"""Share of the memory limit at which an agent is stopped, since it can allocate more until it has ended."""
_PIN = "import os, sys; os.sched_setaffinity(0, map(int, sys.argv[1].split(','))); os.execv(sys.argv[2], sys.argv[2:])"


class ApptainerContainer:
    """One container, from start to end."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._output: threading.Thread | None = None
        self._log_error: OSError | None = None
        self._first: int | None = None
        """A descriptor of the container's first process. All others end with it."""
        self._files: int | None = None
        """A descriptor of the container's ``/dev/shm``."""
        self._events: Path | None = None
        """The file in which the control group counts OOM kills, if the group has a memory limit."""
        self._kills_before = 0
        self.first_pid = 0

    def start(self, command: Sequence[str], cpus: Sequence[int], log: LogWriter) -> None:
        """Start the container on these processors (empty: all). Its output goes to the log."""
        pin = [sys.executable, "-I", "-S", "-c", _PIN, ",".join(map(str, cpus))] if cpus else []
        self._process = process = subprocess.Popen(
            [*pin, *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environment(),  # the harness's environment holds keys
            start_new_session=True,  # the harness handles Ctrl-C
        )
        self._output = threading.Thread(target=self._copy, args=(process, log), daemon=True)
        self._output.start()

    def _copy(self, process: subprocess.Popen[bytes], log: LogWriter) -> None:
        assert process.stdout is not None
        with process.stdout as stream:
            while block := os.read(stream.fileno(), _BLOCK):
                if self._log_error is None:  # else only read: a full pipe would block the agent
                    try:
                        log.write(block)
                    except OSError as error:
                        self._log_error = error

    def find_first(self) -> None:
        """Open the descriptors of the first process, which still waits for its orders, and of its ``/dev/shm``.

        Raises SandboxError if there is no such process.
        """
        assert self._process is not None
        for pid in family(self._process.pid):
            if _pid_inside(pid) == 1:
                with suppress(OSError):
                    self._first, self.first_pid = os.pidfd_open(pid), pid
                    # Its path would lead through a FUSE file system that denies access to us.
                    for link in Path(f"/proc/{pid}/fd").iterdir():
                        if str(link.readlink()) == _IN_MEMORY:
                            self._files = os.open(link, os.O_RDONLY | os.O_DIRECTORY)
                    if memory_limit(pid) is not None and (events := oom_events(pid)) is not None:
                        with suppress(OSError, ValueError, KeyError):
                            self._kills_before, self._events = oom_kills(events), events
                    return
        raise SandboxError("the container's first process is not a descendant of Apptainer's")

    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        if self._process is None:
            return
        if self._first is not None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._first, signal.SIGKILL)
            with suppress(subprocess.TimeoutExpired):  # Apptainer then unmounts what it mounted
                self._process.wait(_END_SECONDS)
        if self.alive():
            for pid in family(self._process.pid):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self._process.wait()

    def finish_output(self) -> None:
        if self._output is not None:
            self._output.join(_END_SECONDS)
        if self._log_error is not None:
            raise SandboxError(f"the agent's output could not be written: {self._log_error}")

    def close(self) -> None:
        for descriptor in (self._first, self._files):
            if descriptor is not None:
                os.close(descriptor)
        self._first = self._files = None

    def oom_kills(self) -> int | None:
        """OOM kills in the job's control group since the start; None if the group has no memory limit."""
        if self._events is not None:
            with suppress(OSError, ValueError, KeyError):
                return oom_kills(self._events) - self._kills_before
        return None

    def memory(self, *, exactly: bool = False) -> int:
        """Return the bytes that the container's processes and its files in memory use.

        Shared memory counts once for each process, unless ``exactly`` is set, which is slower.
        """
        private_label, shared_label = (b"Pss_Anon:", b"Pss_Shmem:") if exactly else (b"RssAnon:", b"RssShmem:")
        name = "smaps_rollup" if exactly else "status"
        private = mapped = 0
        for pid in family(self.first_pid):
            with suppress(OSError, ValueError):
                for line in Path(f"/proc/{pid}/{name}").read_bytes().split(b"\n"):  # names may have other line breaks
                    private += int(line.split()[1]) << 10 if line.startswith(private_label) else 0
                    mapped += int(line.split()[1]) << 10 if line.startswith(shared_label) else 0
        files = 0
        if self._files is not None:
            stats = os.fstatvfs(self._files)
            files = (stats.f_blocks - stats.f_bfree) * stats.f_frsize
        return private + max(mapped, files)


def _pid_inside(pid: int) -> int | None:
    """The PID of a process in its own namespace; None if that is the namespace of this process."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_bytes().split(b"\n"):
            if line.startswith(b"NSpid:"):
                pids = line.split()[1:]
                return int(pids[-1]) if len(pids) > 1 else None
    return None


class MemoryWatcher(Watcher):
    """Calls ``stop`` when the container's memory is close to the limit (bytes). ``full`` then has the reason."""

    def __init__(self, limit: int, container: ApptainerContainer, stop: Callable[[], None]) -> None:
        super().__init__()
        self.full = ""
        self._limit, self._container, self._stop = limit, container, stop

    def watch(self) -> None:
        threshold, pause = self._limit * _STOP_SHARE, _MIN_PAUSE_SECONDS
        while not self.done.wait(pause):
            started = time.monotonic()
            used = self._container.memory()
            if used > threshold:
                used = self._container.memory(exactly=True)
            if used > threshold:
                self.full = f"its processes used more than {format_size(self._limit)}"
                self._stop()
                return
            seconds_left = (threshold - used) / _BYTES_PER_SECOND
            pause = max(_MIN_PAUSE_SECONDS, time.monotonic() - started, min(_MAX_PAUSE_SECONDS, seconds_left))
