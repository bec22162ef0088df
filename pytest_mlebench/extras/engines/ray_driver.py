"""The process that talks to Ray for a session (see ``ray``). It exits at the end of its standard input.

Its argument is the cluster's address, or empty. Questions and answers are lines of JSON. It runs as a program, so that
Ray sends the code of ``Worker`` to the nodes: only the command needs this package, not Ray's workers.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from pytest_mlebench.io.extensions import not_installed

_NAMESPACE = "mlebench"
_WAIT_SECONDS = 0.5
_CONNECT_SECONDS = 20.0
_GUARD = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG
os.getppid() == int(sys.argv[1]) or sys.exit("Ray's worker has ended")
signal.pthread_sigmask(signal.SIG_SETMASK, [])
[signal.signal(number, signal.SIG_DFL) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
os.execv(sys.argv[2], sys.argv[2:])
"""
"""Executes the command. The kernel terminates it if the worker that started it dies."""


class Worker:
    """An actor on a node: starts the command at once, and exits with it."""

    def __init__(self, name: str, command: list[str], folder: str, output: str, seconds: float, guard: str) -> None:
        import ray

        chosen = os.environ.get("MLEBENCH_PYTHON")
        interpreter = chosen or (command[0] if Path(command[0]).exists() else sys.executable)
        self._name, self._folder, self._seconds, self._over_time = name, Path(folder), seconds, False
        self._kills = self._memory_kills()
        actor = ray.get_runtime_context().get_actor_id()
        with (self._folder / output).open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", guard, str(os.getpid()), interpreter, *command[1:]],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=folder,
                env={**os.environ, "MLEBENCH_RAY_ACTOR": actor},
                start_new_session=True,
            )
        threading.Thread(target=self._wait, daemon=True).start()

    def node(self) -> str:
        return socket.gethostname()

    def cancel(self, seconds: float) -> None:
        """Terminate the command, and after ``seconds`` kill it with the processes that it started."""
        self._process.terminate()
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def leave(self) -> None:
        import ray

        ray.actor.exit_actor()

    def _wait(self) -> None:
        import ray

        try:
            code = self._process.wait(self._seconds)
        except subprocess.TimeoutExpired:
            self._over_time = True
            self.cancel(60.0)
            code = self._process.wait()
        report = {"code": code, "over_time": self._over_time, "memory": self._memory_kills() > self._kills}
        partial = self._folder / f".{self._name}.end"
        try:
            partial.write_text(json.dumps(report))
            partial.replace(self._folder / f"{self._name}.end")
        finally:
            ray.get_runtime_context().current_actor.leave.remote()

    def _memory_kills(self) -> int:
        """The number of OOM kills in this process's control group."""
        kills = 0
        try:
            for line in Path("/proc/self/cgroup").read_text().splitlines():
                _, kinds, path = line.split(":", 2)
                if kinds == "" or "memory" in kinds.split(","):
                    for base in (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/memory")):
                        for file in ("memory.events", "memory.oom_control"):
                            for folder in {base / path.lstrip("/"), base}:
                                if (folder / file).is_file():
                                    counts = dict(row.split() for row in (folder / file).read_text().splitlines())
                                    kills = max(kills, int(counts["oom_kill"]))
        except (OSError, ValueError, KeyError):
            pass
        return kills


class Driver:
    """Answers questions. ``_known`` has actors by name, and ``_nodes`` the results of calling their ``node``."""

    def __init__(self, address: str) -> None:
        import ray

        self._ray = ray
        _check_answers(address or os.environ.get("RAY_ADDRESS", ""))
        ray.init(address=address or "auto", namespace=_NAMESPACE, log_to_driver=False, logging_level="ERROR")
        self._actor = ray.remote(Worker)
        self._known: dict[str, Any] = {}
        self._nodes: dict[str, Any] = {}

    def describe(self) -> dict[str, Any]:
        return {"version": self._ray.__version__, "address": self._address()}

    def submit(self, *, request: Mapping[str, float], **options: Any) -> dict[str, Any]:
        actor = self._actor.options(
            name=options["name"], lifetime="detached", max_restarts=0, max_task_retries=0, **request
        ).remote(**options, guard=_GUARD)
        self._known[options["name"]] = actor
        return {"actor": actor._actor_id.hex(), "address": self._address()}

    def poll(self, *, jobs: Mapping[str, str]) -> dict[str, Any]:
        living = set(self._ray.util.list_named_actors())
        for name in living & jobs.keys():
            if (actor := self._find(name)) is not None and name not in self._nodes:
                self._nodes[name] = actor.node.remote()
        pending = [self._nodes[name] for name in jobs if name in self._nodes and name in living]
        if pending:
            self._ray.wait(pending, num_returns=len(pending), timeout=_WAIT_SECONDS)
        found = {}
        for name, folder in jobs.items():
            if name in living:
                found[name] = self._living_status(name)
            elif (status := _reported_end(name, Path(folder))) is not None:
                found[name] = status
            elif name in self._known:
                found[name] = self._why_dead(name)
        for name in self._known.keys() - jobs.keys():
            self._known.pop(name)
            self._nodes.pop(name, None)
        return {"jobs": found}

    def cancel(self, *, names: list[str], seconds: float) -> dict[str, Any]:
        from ray.exceptions import RayError

        living = set(self._ray.util.list_named_actors())
        actors = [actor for name in names if name in living and (actor := self._find(name)) is not None]
        ends = []
        for actor in actors:
            ready, _ = self._ray.wait([actor.node.remote()], timeout=_WAIT_SECONDS)
            if ready:
                ends.append(actor.cancel.remote(seconds))
            else:  # it waits for resources, or its node does not answer
                self._ray.kill(actor)
        if ends:
            self._ray.wait(ends, num_returns=len(ends), timeout=seconds + 10)
        for actor in actors:
            with suppress(RayError, ValueError):
                self._ray.kill(actor)
        return {}

    def _find(self, name: str) -> Any:
        if name not in self._known:
            with suppress(ValueError):  # it has just ended
                self._known[name] = self._ray.get_actor(name)
        return self._known.get(name)

    def _living_status(self, name: str) -> dict[str, str]:
        from ray.exceptions import RayError

        node = self._nodes.get(name)
        if node is None or not self._ray.wait([node], timeout=0)[0]:
            return {"state": "pending", "reason": self._free_resources()}
        try:
            return {"state": "running", "node": self._ray.get(node)}
        except RayError:
            del self._nodes[name]
            return {"state": "running"}

    def _free_resources(self) -> str:
        """Why actors wait: the cluster's resources, and how much of them is free."""
        total, free = self._ray.cluster_resources(), self._ray.available_resources()
        parts = [f"{free.get(kind, 0):g} of {total.get(kind, 0):g} {kind}" for kind in ("CPU", "GPU")]
        memory = f"{free.get('memory', 0) / 2**30:.3g} of {total.get('memory', 0) / 2**30:.3g} GiB of memory"
        return f"waits for resources; free: {', '.join([*parts, memory])}"

    def _why_dead(self, name: str) -> dict[str, str]:
        """How an actor ended without reporting the end of its command: with its worker, or with its node."""
        from ray.exceptions import GetTimeoutError, OutOfMemoryError, RayError

        try:
            self._ray.get(self._known[name].node.remote(), timeout=10)
        except OutOfMemoryError:
            return {"state": "ended", "reason": "Ray: out of memory", "cause": "out of memory"}
        except GetTimeoutError:
            return {"state": "ended", "reason": "Ray: the actor does not answer"}
        except RayError as error:
            lines = [line.strip() for line in str(error).splitlines() if line.startswith("The actor")]
            return {"state": "ended", "reason": f"Ray: {(lines or ['the actor died'])[-1][:300]}"}
        return {"state": "running"}

    def _address(self) -> str:
        return str(self._ray.get_runtime_context().gcs_address)


def _check_answers(address: str) -> None:
    """Check that the cluster's port is open, as Ray itself retries for minutes. Raises ConnectionError."""
    host, _, port = address.rpartition(":")
    if host and port.isdecimal() and "/" not in host:
        try:
            socket.create_connection((host.strip("[]"), int(port)), _CONNECT_SECONDS).close()
        except (OSError, OverflowError) as error:
            raise ConnectionError(f"no Ray cluster answers at {address}: {error}") from None


def _reported_end(name: str, folder: Path) -> dict[str, str] | None:
    """How a job's command ended, from the report of its actor; None if there is no report."""
    try:
        report = json.loads((folder / f"{name}.end").read_text())
    except (OSError, ValueError):
        return None
    if report["over_time"]:
        return {"state": "ended", "reason": "its time limit was reached", "cause": "timed out"}
    if report["code"] >= 0:
        return {"state": "ended", "reason": f"exit status {report['code']}"}
    if report["memory"]:
        return {"state": "ended", "reason": "killed: out of memory", "cause": "out of memory"}
    return {"state": "ended", "reason": f"its process was killed by signal {-report['code']}"}


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # Ray's output must not be read as answers
    driver: Driver | None = None
    for line in sys.stdin:
        question = json.loads(line)
        try:
            if driver is None:
                driver = Driver(sys.argv[1])
            answer = getattr(driver, question.pop("verb"))(**question)
        except ImportError:
            answer = {"error": not_installed("--cluster=ray", "ray")}
        except Exception as error:  # Ray raises errors of many kinds
            answer = {"error": " ".join(str(error).split())[:500] or type(error).__name__}
        answers.write(json.dumps(answer) + "\n")
    os._exit(0)  # the jobs belong to the cluster


if __name__ == "__main__":
    main()
