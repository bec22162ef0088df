"""The command of Apptainer, or of Singularity CE, which takes the same options."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pytest_mlebench.errors import SandboxError, reason

_COMMANDS = ("apptainer", "singularity")
_KEPT = ("PATH", "HOME", "TMPDIR", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS")
_KEPT_FOR_BUILDS = ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
_SETTINGS = ("APPTAINER_CACHEDIR", "APPTAINER_TMPDIR", "SINGULARITY_CACHEDIR", "SINGULARITY_TMPDIR")


@dataclass(frozen=True)
class InstalledProgram:
    """An installed command: its path, and the version that it reports."""

    path: str
    version: str

    def call(self, *arguments: str, timeout: float | None = None) -> str:
        """Run the command and return its output. Raises SandboxError with its last error."""
        try:
            done = subprocess.run(
                [self.path, *arguments],
                env=environment(),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=timeout,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise SandboxError(f"{self.path} failed: {reason(error)}") from error
        if done.returncode:
            raise SandboxError(last_line(done.stderr.decode(errors="replace")))
        return done.stdout.decode(errors="replace")


def find_program() -> InstalledProgram:
    """Find the installed command. Raises SandboxError if there is none."""
    for name in _COMMANDS:
        if path := shutil.which(name):
            return InstalledProgram(path, InstalledProgram(path, "").call("--version", timeout=60).strip())
    raise SandboxError(
        f"Apptainer was not found (none of {', '.join(_COMMANDS)} is a command): load its module, for example "
        "`module load apptainer`, or install it; --sandbox=docker does not need it"
    )


def environment(variables: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The variables that the command needs. The harness's environment also holds keys, and containers would get any
    ``APPTAINERENV_…``."""
    return {name: variables[name] for name in (*_KEPT, *_SETTINGS) if name in variables}


def build_environment() -> dict[str, str]:
    """The variables for builds, which may need a proxy to reach registries."""
    return environment() | {name: value for name, value in os.environ.items() if name in _KEPT_FOR_BUILDS}


def last_line(text: str) -> str:
    """Apptainer's last fatal error, without its level, or else the last line of the output."""
    lines: Sequence[str] = [line.strip() for line in text.splitlines() if line.strip()]
    chosen = next((line for line in reversed(lines) if line.startswith("FATAL")), lines[-1] if lines else "no output")
    return chosen.removeprefix("FATAL:").strip()[:500]
