"""A container that holds one agent: a child process of ours, and the first process of a namespace below it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from pytest_mlebench.errors import SandboxError
from pytest_mlebench.extras.apptainer.program import environment
from pytest_mlebench.io.units import format_size
from pytest_mlebench.sandbox.limits import Watcher, memory_limit, oom_events, oom_kills
from pytest_mlebench.sandbox.redaction import LogWriter

_BLOCK = 1 << 16
_END_SECONDS = 20.0
_LOOK_SECONDS, _LEAST_SECONDS = 0.1, 0.01
_BYTES_PER_SECOND = 4e9
"""How fast processes may take memory: the less is left, the sooner the next look."""
_IN_MEMORY = "/dev/shm"
_ENOUGH = 0.95
"""An agent is stopped at this share of its memory: what it takes meanwhile counts too."""
_PIN = "import os, sys; os.sched_setaffinity(0, map(int, sys.argv[1].split(','))); os.execv(sys.argv[2], sys.argv[2:])"


class ApptainerContainer:
    """One container from its start to its end."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._output: threading.Thread | None = None
        self._log_error: OSError | None = None
        self._first: int | None = None
        """A descriptor of the first process, whose end is that of all others."""
        self._files: int | None = None
        """A descriptor of its ``/dev/shm``."""
        self._events: Path | None = None
        """Where its control group counts processes that were killed for memory, if that has a limit."""
        self._kills_before = 0
        self.first_pid = 0

    def start(self, command: Sequence[str], cpus: Sequence[int], log: LogWriter) -> None:
        """Start it on these processors (none: all); all that it prints goes to the log."""
        pin = [sys.executable, "-I", "-S", "-c", _PIN, ",".join(map(str, cpus))] if cpus else []
        self._process = process = subprocess.Popen(
            [*pin, *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environment(),  # the harness's own has keys in it
            start_new_session=True,  # Ctrl-C is the harness's to handle
        )
        self._output = threading.Thread(target=self._copy, args=(process, log), daemon=True)
        self._output.start()

    def _copy(self, process: subprocess.Popen[bytes], log: LogWriter) -> None:
        assert process.stdout is not None
        with process.stdout as stream:
            while block := os.read(stream.fileno(), _BLOCK):
                if self._log_error is None:  # else read on: a full pipe would hold the agent up
                    try:
                        log.write(block)
                    except OSError as error:
                        self._log_error = error

    def find_first(self) -> None:
        """Hold on to its first process, which waits for its order, and to its folder of files in memory.

        Raises SandboxError.
        """
        assert self._process is not None
        for pid in family(self._process.pid):
            if _number_inside(pid) == 1:
                with suppress(OSError):
                    self._first, self.first_pid = os.pidfd_open(pid), pid
                    # Not by its path, which leads through a file system in user space that lets nobody else in.
                    for link in Path(f"/proc/{pid}/fd").iterdir():
                        if str(link.readlink()) == _IN_MEMORY:
                            self._files = os.open(link, os.O_RDONLY | os.O_DIRECTORY)
                    self._find_events(pid)
                    return
        raise SandboxError("the container's first process is not below Apptainer's")

    def _find_events(self, pid: int) -> None:
        if memory_limit(pid) is not None and (events := oom_events(pid)) is not None:
            with suppress(OSError, ValueError, KeyError):
                self._kills_before = oom_kills(events)
                self._events = events

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
        """Those since its start, in the control group of the job, if that has a limit; else nobody counts them."""
        if self._events is not None:
            with suppress(OSError, ValueError, KeyError):
                return oom_kills(self._events) - self._kills_before
        return None

    def memory(self, *, exactly: bool = False) -> int:
        """Bytes that its processes hold, and the files in its memory.

        What processes share counts for each of them, unless ``exactly``, which takes the kernel longer.
        """
        own, shared = (b"Pss_Anon:", b"Pss_Shmem:") if exactly else (b"RssAnon:", b"RssShmem:")
        name = "smaps_rollup" if exactly else "status"
        private = mapped = 0
        for pid in family(self.first_pid):
            with suppress(OSError, ValueError):
                for line in Path(f"/proc/{pid}/{name}").read_bytes().splitlines():
                    private += int(line.split()[1]) << 10 if line.startswith(own) else 0
                    mapped += int(line.split()[1]) << 10 if line.startswith(shared) else 0
        files = 0
        if self._files is not None:
            about = os.fstatvfs(self._files)
            files = (about.f_blocks - about.f_bfree) * about.f_frsize
        return private + max(mapped, files)


def family(pid: int) -> Iterator[int]:
    """A process and all that stem from it. Those of a container stay below its first process."""
    waiting = [pid]
    while waiting:
        yield (pid := waiting.pop())
        with suppress(OSError):
            for thread in Path(f"/proc/{pid}/task").iterdir():
                with suppress(OSError):
                    waiting += map(int, (thread / "children").read_text().split())


def _number_inside(pid: int) -> int | None:
    """The number that a process has in its own namespace, if that is not ours."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("NSpid:"):
                numbers = line.split()[1:]
                return int(numbers[-1]) if len(numbers) > 1 else None
    return None


class MemoryWatcher(Watcher):
    """Calls ``stop`` once the container's memory is nearly the limit, in bytes. ``full`` says so."""

    def __init__(self, limit: int, container: ApptainerContainer, stop: Callable[[], None]) -> None:
        super().__init__()
        self.full = ""
        self._limit, self._container, self._stop = limit, container, stop

    def watch(self) -> None:
        enough, pause = self._limit * _ENOUGH, _LEAST_SECONDS
        while not self.done.wait(pause):
            started = time.monotonic()
            used = self._container.memory()
            if used > enough:
                used = self._container.memory(exactly=True)
            if used > enough:
                self.full = f"its processes used more than {format_size(self._limit)}"
                self._stop()
                return
            left = (enough - used) / _BYTES_PER_SECOND
            pause = max(_LEAST_SECONDS, time.monotonic() - started, min(_LOOK_SECONDS, left))
