"""Ray as an engine: a job is a detached actor that starts the command on its node and exits when the command has ended.

Ordinary tasks of Ray end with the process that submitted them; a detached actor belongs to the cluster. The actor has
the job's name, so any later session can find it. A separate process talks to Ray (see ``ray_driver``), because Ray ends
a process that has lost its cluster, and the session must survive.
"""

from __future__ import annotations

import json
import math
import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import IO, Any

from pytest_mlebench.errors import ClusterError
from pytest_mlebench.extras.engines.contract import Engine, Job, Resources, Status
from pytest_mlebench.extras.engines.plan import OUTPUT
from pytest_mlebench.extras.engines.resources import HARNESS_MEMORY
from pytest_mlebench.io.values import parse
from pytest_mlebench.options import Settings

CANCEL_SECONDS = 60.0
"""Time for a job to stop its agent and clean up."""
_ANSWER_SECONDS = 120.0
"""Timeout for Ray's answers."""


class RayEngine:
    """Jobs on the running cluster at ``address`` (``HOST:PORT``), by default at ``$RAY_ADDRESS`` or on this machine.
    ``secrets`` names variables that Ray's workers do not need."""

    name = "ray"
    max_parallel: int | None = None
    poll_seconds = 1.0
    settle_seconds = 5.0

    def __init__(self, address: str | None = None, secrets: Sequence[str] = ()) -> None:
        self._address = address
        self._environment = {name: value for name, value in os.environ.items() if name not in secrets}
        self._driver: _Driver | None = None

    def check(self) -> None:
        """Check that the cluster answers, and has the version of Ray that is installed here."""
        self._call("describe")

    def check_resources(self, resources: Resources) -> None:
        """Accept all, since a cluster may add nodes for a waiting job. ``mlebench watch`` shows what is free."""

    def submit(self, job: Job, command: Sequence[str], resources: Resources) -> str:
        """Submit a job. If the node sets ``$MLEBENCH_PYTHON``, it replaces the command's interpreter."""
        answer = self._call(
            "submit",
            name=job.name,
            command=list(command),
            folder=str(job.folder),
            output=OUTPUT,
            seconds=resources.seconds,
            request=requests(resources),
        )
        return f"{answer['actor']}@{answer['address']}"

    def poll(self, jobs: Sequence[Job]) -> Mapping[str, Status]:
        self._use_address_of(jobs)
        answer = self._call("poll", jobs={job.name: str(job.folder) for job in jobs})
        return {name: parse(Status, status) for name, status in answer["jobs"].items()}

    def cancel(self, jobs: Sequence[Job]) -> None:
        """Terminate jobs, so that they stop their agents and clean up, then kill those that still run."""
        self._use_address_of(jobs)
        names = [job.name for job in jobs]
        self._call("cancel", names=names, seconds=CANCEL_SECONDS, timeout=CANCEL_SECONDS + _ANSWER_SECONDS)

    def describe(self) -> Mapping[str, str]:
        answer = self._call("describe")
        return {"engine": self.name, "version": f"ray {answer['version']}", "address": answer["address"]}

    def _use_address_of(self, jobs: Sequence[Job]) -> None:
        """If the user named no address, use the one that the jobs were submitted to."""
        if self._driver is None and not self._address:
            addresses = [address for job in jobs if (address := job.id.partition("@")[2])]
            self._address = addresses[0] if addresses and not os.environ.get("RAY_ADDRESS") else None

    def _call(self, verb: str, *, timeout: float = _ANSWER_SECONDS, **arguments: Any) -> dict[str, Any]:
        """Ask the driver; raises ClusterError. If the driver does not answer, the next call starts another one."""
        if self._driver is None:
            self._driver = _Driver(self._address, self._environment)
        try:
            answer = self._driver.ask({"verb": verb, **arguments}, timeout)
        except _NoAnswer as error:
            last_line = self._driver.close()
            self._driver = None
            raise ClusterError(f"{error}{f': {last_line}' if last_line else ''}") from None
        if "error" in answer:
            raise ClusterError(str(answer["error"]))
        return answer


def requests(resources: Resources) -> dict[str, float]:
    """The resources to request from Ray, as options of an actor."""
    cpus = 1 if resources.cpus is None else math.ceil(resources.cpus * 10_000) / 10_000  # Ray's precision
    options: dict[str, float] = {"num_cpus": cpus}
    if resources.memory is not None:
        options["memory"] = resources.memory + HARNESS_MEMORY
    if resources.gpus:
        options["num_gpus"] = resources.gpus
    return options


class _NoAnswer(Exception):
    """The driver has ended, or does not answer."""


class _Driver:
    """The process that talks to Ray. Each question and each answer is a line of JSON."""

    def __init__(self, address: str | None, environment: Mapping[str, str]) -> None:
        self._log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 -- closed by close
        self._process = subprocess.Popen(
            [sys.executable, "-m", "pytest_mlebench.extras.engines.ray_driver", address or ""],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env={**environment, "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0", "PYTHONWARNINGS": "ignore"},
            start_new_session=True,  # the session handles Ctrl-C
        )
        self._rest = b""

    def ask(self, question: Mapping[str, Any], seconds: float) -> dict[str, Any]:
        """Send a question, and return the answer. Raises _NoAnswer."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None and stdout is not None
        deadline = time.monotonic() + seconds
        try:
            stdin.write(json.dumps(question).encode() + b"\n")
            stdin.flush()
        except OSError:
            raise _NoAnswer("the connection to Ray has ended") from None
        while b"\n" not in self._rest:
            if not select.select([stdout], [], [], max(0.0, deadline - time.monotonic()))[0]:
                raise _NoAnswer(f"Ray did not answer within {seconds:g} seconds")
            if not (block := os.read(stdout.fileno(), 1 << 16)):
                raise _NoAnswer("the connection to Ray has ended")
            self._rest += block
        line, _, self._rest = self._rest.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> str:
        """End the process, and return the last line that it printed, which is usually the reason for its end."""
        self._process.kill()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with suppress(OSError):
                    stream.close()
        self._process.wait()
        with self._log as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - 4096))
            lines = log.read().decode(errors="replace").strip().splitlines()
        return lines[-1].strip()[:300] if lines else ""

    def __del__(self) -> None:
        with suppress(Exception):
            self.close()


def create(settings: Settings | None, secret_names: tuple[str, ...]) -> Engine:
    """Return the engine for Ray at a session's address."""
    return RayEngine() if settings is None else RayEngine(settings.cluster_address, secret_names)
