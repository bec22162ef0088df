"""A sandbox without a container: a process in a private home, for agents that are trusted.

It keeps an honest agent within its limits and cleans up after it. It isolates nothing from a hostile one, which runs
with your user's rights: it can read your files, the answers among them, and reach the network.
"""

from __future__ import annotations

import json
import logging
import math
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from pytest_mlebench.agents.definition import Agent
from pytest_mlebench.data.files import link_tree
from pytest_mlebench.errors import DataError, SandboxError
from pytest_mlebench.sandbox import supervisor
from pytest_mlebench.sandbox.base import COLLECTED, RUN_LOG, Ending, Execution, Task
from pytest_mlebench.sandbox.checker import SubmissionChecker
from pytest_mlebench.sandbox.collect import Collector
from pytest_mlebench.sandbox.gpus import GpuPool
from pytest_mlebench.sandbox.instructions import INSTRUCTIONS, render_instructions, validate_script
from pytest_mlebench.sandbox.logs import LogWriter, tail
from pytest_mlebench.sandbox.signals import sigterm_interrupts

logger = logging.getLogger(__name__)

GRACE_SECONDS = 5.0
_BLOCK = 1 << 16
_MEMORY_ERRORS = ("MemoryError", "Cannot allocate memory", "std::bad_alloc")


class LocalSandbox:
    """Runs an agent's start script as a process group of this machine.

    ``gpu_ids`` restricts which GPUs a run may be given; ``progress`` is told of waiting for one.
    """

    name = "local"

    def __init__(self, *, gpu_ids: Sequence[str] = (), progress: Callable[[str], None] = logger.info) -> None:
        self._gpu_pool = GpuPool(gpu_ids)
        self._progress = progress

    def check(self, agent: Agent) -> None:
        """Any agent's start script can be run, where there is a Linux with bash."""
        if sys.platform != "linux":
            raise SandboxError("the local sandbox needs Linux; use --sandbox=docker")
        if shutil.which("bash") is None:
            raise SandboxError("the local sandbox needs bash")

    def prepare(self, agent: Agent) -> None:
        """Nothing to do."""

    def run(self, task: Task) -> Execution:
        task.run_dir.mkdir(parents=True, exist_ok=True)
        # In the run directory, since hard links to the data need its file system more often than not.
        home = Path(tempfile.mkdtemp(prefix=".home-", dir=task.run_dir)).resolve()
        collector = Collector(task.limits.collect_bytes, task.limits.collect_files, task.launch.secrets)
        try:
            with (
                sigterm_interrupts(),
                self._gpu_pool.lease(task.limits.gpus, self._progress) as gpus,
                SubmissionChecker(task.validate) as checker,
            ):
                environment = _furnish(home, task, checker.url)
                # A convention that CUDA keeps; nothing stops an agent that does not.
                environment["CUDA_VISIBLE_DEVICES"] = ",".join(gpu.uuid for gpu in gpus)
                try:
                    result = _supervise(home, task, environment)
                finally:
                    for name in COLLECTED:
                        collector.collect(home / name, task.run_dir / name)
            about: dict[str, Any] = {
                "name": self.name,
                "gpus": [gpu.name for gpu in gpus],
                "left_out": collector.left_out,
                "validations": list(checker.history),
            }
            return _execution(result, task, about, str(home) if task.keep else "")
        except (OSError, DataError) as error:
            raise SandboxError(f"the local sandbox failed: {error}") from error
        finally:
            if not task.keep:
                _remove(home)


def _furnish(home: Path, task: Task, validation_url: str) -> dict[str, str]:
    """Lay out the agent's home; returns its variables."""
    folders = {name: home / name for name in (*COLLECTED, "tmp", "data")}
    for folder in folders.values():
        folder.mkdir()
    # Links of our own: the folder next to the store's public data holds the answers.
    link_tree(task.public, folders["data"])
    for folder in (folders["data"], *(path for path in folders["data"].rglob("*") if path.is_dir())):
        folder.chmod(0o555)
    shutil.copytree(task.agent.folder, home / "agent")
    shutil.copy(validate_script(), home)
    places = {name: str(folder) for name, folder in folders.items() if name != "tmp"}
    script = str(home / validate_script().name)
    (home / INSTRUCTIONS).write_text(
        render_instructions(validate=script, time_limit=task.limits.time_limit, **places), encoding="utf-8"
    )
    environment = {
        # The agent's `python` is ours: the packages of the harness are what a trusted agent can count on.
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]),
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "PYTHONUNBUFFERED": "1",
        "TMPDIR": str(folders["tmp"]),
        **{f"{name.upper()}_DIR": place for name, place in places.items()},
        "AGENT_DIR": str(home / "agent"),
        "COMPETITION_ID": task.competition_id,
        "TIME_LIMIT_SECS": f"{task.limits.time_limit:g}",
        "VALIDATION_URL": validation_url,
    }
    return environment | dict(task.launch.environment)


def _supervise(home: Path, task: Task, environment: dict[str, str]) -> dict[str, Any]:
    limits = task.limits
    start = home / "agent" / task.agent.start.relative_to(task.agent.folder)
    reader, writer = os.pipe()
    order = {
        "command": ["bash", str(start), *task.launch.arguments],
        "home": str(home),
        "environment": environment,
        "output": writer,
        "time_limit": limits.time_limit,
        "grace": GRACE_SECONDS,
        "cpus": _cpus(limits.cpus, task.labels.get("worker", "")),
        "limits": {
            "memory": limits.memory,
            "file_size": limits.disk,
            "cpu_seconds": limits.cpus * limits.time_limit + 1 if limits.cpus else None,
            "core": 0,
        },
    }
    log = LogWriter(task.run_dir / RUN_LOG, limits.log_bytes, task.launch.secrets)
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", supervisor.__file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        pass_fds=[writer],
        start_new_session=True,  # Ctrl-C is the harness's to handle
    )
    os.close(writer)
    assert process.stdin is not None and process.stdout is not None
    try:
        process.stdin.write(json.dumps(order).encode() + b"\n")
        process.stdin.flush()
        while block := os.read(reader, _BLOCK):
            log.write(block)
        answer = process.stdout.readline()
    except BaseException:
        with suppress(OSError):
            process.stdin.write(b"stop\n")
            process.stdin.flush()
        with suppress(subprocess.TimeoutExpired):
            process.wait(GRACE_SECONDS + 5)
        raise
    finally:
        process.stdin.close()
        process.stdout.close()
        process.wait()
        os.close(reader)
        log.close()
    if not answer:
        raise SandboxError(f"the agent's supervisor ended with status {process.returncode} and told nothing")
    result: dict[str, Any] = json.loads(answer)
    return result


def _execution(result: dict[str, Any], task: Task, about: dict[str, Any], kept: str) -> Execution:
    code, reason = result["exit_code"], result["reason"]
    # A shell that ran the program which was killed tells it as 128 + the signal's number.
    number = -code if code < 0 else code - 128 if code > 128 else 0
    name = signal.Signals(number).name if number in set(signal.Signals) else None
    log = tail(task.run_dir / RUN_LOG)
    if reason == "timed out":
        ending, detail = Ending.TIMED_OUT, f"stopped after {task.limits.time_limit:g} s"
    elif reason == "out of memory":
        ending, detail = Ending.OUT_OF_MEMORY, f"its processes used more than {task.limits.memory:,} bytes"
    elif code == 0:
        ending, detail = Ending.FINISHED, ""
    elif task.limits.memory is not None and any(word in log for word in _MEMORY_ERRORS):
        ending, detail = Ending.OUT_OF_MEMORY, f"a process asked for more than {task.limits.memory:,} bytes"
    else:
        ending, detail = Ending.CRASHED, f"killed by {name}" if name else f"exit code {code}"
        if name == "SIGXFSZ":
            detail = f"a file grew over the limit of {task.limits.disk:,} bytes"
        elif "No space left on device" in log:
            detail += ", disk full"
    if result["left_behind"] and not reason:
        about["left_behind"] = result["left_behind"]
    return Execution(
        ending=ending,
        seconds=result["seconds"],
        exit_code=code if code >= 0 else None,
        signal=name,
        detail=detail,
        sandbox=about,
        kept=kept,
    )


def _cpus(number: float | None, worker: str) -> list[int]:
    """Which processors the agent may use; workers of one session take different ones."""
    usable = sorted(os.sched_getaffinity(0))
    if number is None or number >= len(usable):
        return []
    count = max(1, math.ceil(number))
    first = count * int("".join(filter(str.isdigit, worker)) or 0)
    return [usable[(first + k) % len(usable)] for k in range(count)]


def _remove(home: Path) -> None:
    for folder in (home / "data", *(path for path in (home / "data").rglob("*") if path.is_dir())):
        with suppress(OSError):
            folder.chmod(0o755)
    shutil.rmtree(home, ignore_errors=True)
