"""Ray as an engine: a job is a detached actor that starts the command on its node and goes when it has ended.

Ordinary tasks of Ray end with the process that submitted them; a detached actor belongs to the cluster. The name of
the job is the actor's, so that any later session finds it. All that speaks to Ray is in a process of its own (see
``ray_driver``): Ray ends a process that has lost its cluster, which must not be the session.
"""

from __future__ import annotations

import json
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
from pytest_mlebench.extras.engines.contract import Cause, Engine, Job, JobState, Resources, Status
from pytest_mlebench.extras.engines.plan import OUTPUT
from pytest_mlebench.options import Settings

CANCEL_SECONDS = 60.0
"""That a job gets to stop its agent and to clean up."""
_ANSWER_SECONDS = 120.0
"""That Ray gets to answer."""
_HARNESS_MEMORY = 1 << 30
"""For the harness, beside what the agent may use."""


class RayEngine:
    """Jobs on the running cluster at ``address`` (``HOST:PORT``); by default, that of ``$RAY_ADDRESS`` or of this
    machine. ``secrets`` names variables that Ray's workers need not see."""

    name = "ray"
    max_parallel: int | None = None
    poll_seconds = 1.0
    settle_seconds = 5.0

    def __init__(self, address: str | None = None, secrets: Sequence[str] = ()) -> None:
        self._address = address
        self._environment = {name: value for name, value in os.environ.items() if name not in secrets}
        self._driver: _Driver | None = None

    def check(self) -> None:
        """Check that the cluster answers, and that its Ray is the same as here."""
        self._call("describe")

    def check_resources(self, resources: Resources) -> None:
        """A cluster may add nodes for a job that waits, so none is refused; ``mlebench watch`` shows what is free."""

    def submit(self, job: Job, command: Sequence[str], resources: Resources) -> str:
        """``$MLEBENCH_PYTHON`` of the node, if it is set, takes the place of the command's interpreter."""
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
        self._remember(jobs)
        answer = self._call("poll", jobs={job.name: str(job.folder) for job in jobs})
        return {
            name: Status(
                state=JobState(told["state"]),
                reason=told.get("reason", ""),
                node=told.get("node", ""),
                cause=Cause(told.get("cause", Cause.LOST)),
            )
            for name, told in answer["jobs"].items()
        }

    def cancel(self, jobs: Sequence[Job]) -> None:
        """Let jobs stop their agents and clean up, and end those that do not."""
        self._remember(jobs)
        names = [job.name for job in jobs]
        self._call("cancel", names=names, seconds=CANCEL_SECONDS, patience=CANCEL_SECONDS + _ANSWER_SECONDS)

    def describe(self) -> Mapping[str, str]:
        answer = self._call("describe")
        return {"engine": self.name, "version": f"ray {answer['version']}", "address": answer["address"]}

    def _remember(self, jobs: Sequence[Job]) -> None:
        """Without an address of the user's, jobs are asked for where they were submitted."""
        if self._driver is None and not self._address:
            known = [address for job in jobs if (address := job.id.partition("@")[2])]
            self._address = known[0] if known and not os.environ.get("RAY_ADDRESS") else None

    def _call(self, verb: str, *, patience: float = _ANSWER_SECONDS, **arguments: Any) -> dict[str, Any]:
        """What the driver answers; raises ClusterError. A driver that does not answer is replaced by the next call."""
        if self._driver is None:
            self._driver = _Driver(self._address, self._environment)
        try:
            answer = self._driver.ask({"verb": verb, **arguments}, patience)
        except _Silent as silent:
            said = self._driver.close()
            self._driver = None
            raise ClusterError(f"{silent}{f': {said}' if said else ''}") from None
        if "error" in answer:
            raise ClusterError(str(answer["error"]))
        return answer


def requests(resources: Resources) -> dict[str, float]:
    """What Ray is asked for, by the names of an actor's options."""
    asked: dict[str, float] = {"num_cpus": 1 if resources.cpus is None else resources.cpus}
    if resources.memory is not None:
        asked["memory"] = resources.memory + _HARNESS_MEMORY
    if resources.gpus:
        asked["num_gpus"] = resources.gpus
    return asked


class _Silent(Exception):
    """The driver has ended, or does not answer."""


class _Driver:
    """The process that speaks to Ray: a line of JSON for each question, and one for each answer."""

    def __init__(self, address: str | None, environment: Mapping[str, str]) -> None:
        self._log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 -- closed by close
        self._process = subprocess.Popen(
            [sys.executable, "-m", "pytest_mlebench.extras.engines.ray_driver", address or ""],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env={**environment, "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0", "PYTHONWARNINGS": "ignore"},
            start_new_session=True,  # Ctrl-C is the session's to handle
        )
        self._rest = b""

    def ask(self, question: Mapping[str, Any], seconds: float) -> dict[str, Any]:
        """Raises _Silent."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None and stdout is not None
        deadline = time.monotonic() + seconds
        try:
            stdin.write(json.dumps(question).encode() + b"\n")
            stdin.flush()
        except OSError:
            raise _Silent("the connection to Ray has ended") from None
        while b"\n" not in self._rest:
            if not select.select([stdout], [], [], max(0.0, deadline - time.monotonic()))[0]:
                raise _Silent(f"Ray gave no answer in {seconds:g} seconds")
            if not (block := os.read(stdout.fileno(), 1 << 16)):
                raise _Silent("the connection to Ray has ended")
            self._rest += block
        line, _, self._rest = self._rest.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> str:
        """End it; returns the last line that it printed, which is the reason for its end more often than not."""
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
    """Ray at the address of a session."""
    return RayEngine() if settings is None else RayEngine(settings.cluster_address, secret_names)
