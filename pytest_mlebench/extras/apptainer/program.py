"""The command of Apptainer, or of Singularity CE, which takes the same options."""

from __future__ import annotations

import os
import selectors
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pytest_mlebench.errors import SandboxError, reason

_COMMANDS = ("apptainer", "singularity")
_KEPT = (
    *("PATH", "HOME", "TMPDIR", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS"),
    *("APPTAINER_CACHEDIR", "APPTAINER_TMPDIR", "SINGULARITY_CACHEDIR", "SINGULARITY_TMPDIR"),
)
_KEPT_FOR_BUILDS = ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
_CALL_SECONDS = 900.0
_MAX_OUTPUT = 1 << 20
"""Bytes of a command's output that are kept, from its end: the programs of an image may print anything."""


@dataclass(frozen=True)
class InstalledProgram:
    """An installed command: its path, and the version that it reports."""

    path: str
    version: str

    def call(self, *arguments: str, timeout: float = _CALL_SECONDS) -> str:
        """Run the command and return the end of its output. Raises SandboxError with its last error."""
        try:
            status, output, errors = run([self.path, *arguments], environment(), timeout)
        except subprocess.TimeoutExpired as error:
            raise SandboxError(f"{self.path} took longer than {timeout:g} s") from error
        except OSError as error:
            raise SandboxError(f"{self.path} failed: {reason(error)}") from error
        if status:
            raise SandboxError(last_line(errors))
        return output


def run(
    command: Sequence[str], variables: Mapping[str, str], seconds: float, *, merged: bool = False
) -> tuple[int, str, str]:
    """Run a command. Returns its exit status, and the ends of its output and of its errors, which can be merged.

    After an error, none of its processes is left. Raises OSError or subprocess.TimeoutExpired.
    """
    errors = subprocess.STDOUT if merged else subprocess.PIPE
    deadline = time.monotonic() + seconds
    with (
        subprocess.Popen(
            command, env=variables, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors
        ) as process,
        selectors.DefaultSelector() as selector,
    ):
        ends = (bytearray(), bytearray())
        for stream, kept in zip((process.stdout, process.stderr), ends, strict=True):
            if stream is not None:
                selector.register(stream, selectors.EVENT_READ, kept)
        try:
            while selector.get_map():
                if time.monotonic() > deadline:
                    raise subprocess.TimeoutExpired(command, seconds)
                for key, _ in selector.select(deadline - time.monotonic()):
                    end: bytearray = key.data
                    if block := os.read(key.fd, 1 << 16):
                        end += block
                        del end[:-_MAX_OUTPUT]
                    else:
                        selector.unregister(key.fileobj)
            status = process.wait(max(0.0, deadline - time.monotonic()))
        except BaseException:
            for pid in list(family(process.pid)):
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            raise
    return status, ends[0].decode(errors="replace"), ends[1].decode(errors="replace")


def family(pid: int) -> Iterator[int]:
    """Yield a process and all its descendants. A container's processes stay descendants of its first one."""
    waiting = [pid]
    while waiting:
        yield (pid := waiting.pop())
        with suppress(OSError):
            for thread in Path(f"/proc/{pid}/task").iterdir():
                with suppress(OSError):
                    waiting += map(int, (thread / "children").read_text().split())


def find_program() -> InstalledProgram:
    """Find the installed command. Raises SandboxError if there is none."""
    for name in _COMMANDS:
        if path := shutil.which(name):
            return InstalledProgram(path, InstalledProgram(path, "").call("--version", timeout=60).strip())
    raise SandboxError(
        f"Apptainer was not found (none of {', '.join(_COMMANDS)} is a command): load its module, for example "
        "`module load apptainer`, or install it; --sandbox=docker does not need it"
    )


def environment(*, builds: bool = False) -> dict[str, str]:
    """The variables that the command needs; for builds, with a proxy, which they may need to reach registries.

    The harness's environment also holds keys, and containers would get any ``APPTAINERENV_…``.
    """
    names = (*_KEPT, *(_KEPT_FOR_BUILDS if builds else ()))
    return {name: os.environ[name] for name in names if name in os.environ}


def last_line(text: str) -> str:
    """Apptainer's last fatal error, without its level, or else the last line of the output."""
    lines: Sequence[str] = [line.strip() for line in text.splitlines() if line.strip()]
    chosen = next((line for line in reversed(lines) if line.startswith("FATAL")), lines[-1] if lines else "no output")
    return chosen.removeprefix("FATAL:").strip()[:500]
