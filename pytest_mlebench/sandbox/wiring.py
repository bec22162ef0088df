"""Connects a container to the harness, starts the agent there and waits for its end, with any container runtime.

The sockets are in a folder that is visible in the container, and its first process (``environment/init.py``) relays
them to ports on localhost. Only the control channel is for that process itself: it receives its order and reports the
agent's end there.
"""

from __future__ import annotations

import resource
import shutil
import socket
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from pytest_mlebench.errors import SandboxError
from pytest_mlebench.io.processes import owned_prefix
from pytest_mlebench.io.units import pluralize
from pytest_mlebench.records.record import RUN_LOG
from pytest_mlebench.sandbox import channels, contract
from pytest_mlebench.sandbox.checker import PORT, SubmissionChecker
from pytest_mlebench.sandbox.collection import taking_snapshots
from pytest_mlebench.sandbox.gpus import Gpu, GpuUsage
from pytest_mlebench.sandbox.limits import RunEnd
from pytest_mlebench.sandbox.network.policy import Network, endpoints
from pytest_mlebench.sandbox.network.proxy import Proxy
from pytest_mlebench.sandbox.redaction import LogWriter, Redactor, connections, environment_secrets, tail, validations

START_SECONDS = 120.0
HOME = "/home"
DATA = f"{HOME}/data"
CONTAINER_DIRS = {
    "SUBMISSION_DIR": f"{HOME}/submission",
    "LOGS_DIR": f"{HOME}/logs",
    "CODE_DIR": f"{HOME}/code",
    "AGENT_DIR": f"{HOME}/agent",
}
"""The build arguments available to every agent's Dockerfile."""
_POLL_SECONDS = 1.0
_SUBMISSION_SOCKET = "submission.sock"
_DESCRIPTORS = 4096
"""Minimum limit on open files for this process; many systems set 1,024."""
_LONGEST = 40
"""A temporary folder's path must be shorter than this, since a socket's path has at most 107 bytes."""


class Inside(Protocol):
    """A container that is running, or has ended."""

    def alive(self) -> bool: ...

    def kill(self) -> None:
        """Kill it now, with all its processes. Does nothing if it is not running."""

    def finish_output(self) -> None:
        """Wait until all its output is in the log. Raises SandboxError if the log could not be written."""

    def oom_kills(self) -> int | None:
        """Return how many processes the kernel killed for memory, read on the host; None if that is not possible."""


class Ports(NamedTuple):
    """The ports on localhost where the agent finds the harness."""

    checker: int = PORT
    gateway: int = 5001
    steps: int = 5002
    proxy: int = 3128

    @classmethod
    def free(cls) -> Ports:
        """Return ports that are free on this machine."""
        with ExitStack() as stack:
            probes = [stack.enter_context(socket.socket()) for _ in range(4)]
            for probe in probes:
                probe.bind(("127.0.0.1", 0))
            return cls(*(probe.getsockname()[1] for probe in probes))


class Wiring:
    """What a run's container and the harness share, until the stack is closed: sockets, the agent's GPUs, and its log.

    ``task`` has the launch of its gateway, if there is one. ``relays`` has the names of sockets in ``folder``, by the
    port on localhost where the agent finds them. Without ``own_network``, the container shares this machine's ports,
    where the usual ones may be taken.
    """

    def __init__(
        self,
        task: contract.Task,
        stack: ExitStack,
        *,
        gpus: Sequence[Gpu],
        network: Network,
        allow_hosts: Iterable[str],
        own_network: bool = True,
    ) -> None:
        self.gpus, self.usage = gpus, GpuUsage(gpus)
        self.ports = Ports() if own_network else Ports.free()
        self.folder = folder = stack.enter_context(socket_folder())
        self.checker = stack.enter_context(SubmissionChecker.of(task, unix_socket=folder / "checker.sock"))
        self.channel = stack.enter_context(channels.ControlChannel(folder / "control.sock"))
        self.relays = {str(self.ports.checker): "checker.sock"}
        gateway_hosts: Mapping[str, str] = {}
        if task.gateway is not None:
            gateway_hosts = task.gateway.hosts
            opened = task.gateway.open(folder / "llm.sock", url=f"http://localhost:{self.ports.gateway}")
            task = replace(task, launch=stack.enter_context(opened))
            self.relays[str(self.ports.gateway)] = "llm.sock"
        if task.steps is not None:
            stack.enter_context(task.steps.open(folder / "steps.sock"))
            self.relays[str(self.ports.steps)] = "steps.sock"
            task = contract.with_steps(task, f"localhost:{self.ports.steps}")
        self.proxy: Proxy | None = None
        if network == "llm":
            allowed = endpoints(task.agent, task.launch, allow_hosts, without=gateway_hosts)
            self.proxy = stack.enter_context(Proxy(allowed, unix_socket=folder / "proxy.sock"))
            self.relays[str(self.ports.proxy)] = "proxy.sock"
        self.submission = stack.enter_context(channels.SubmissionChannel(folder / _SUBMISSION_SOCKET))
        task.run_dir.mkdir(parents=True, exist_ok=True)
        self.redactor = Redactor({*task.launch.secrets, *environment_secrets()})
        self.log = LogWriter(task.run_dir / RUN_LOG, task.limits.log_bytes, self.redactor)
        stack.callback(self.log.close)
        self.task = task

    def account(self) -> dict[str, Any]:
        """Return the validations, connections and GPU usage, as fields of a ``SandboxAccount``. Stops the proxy."""
        fields = {"validations": validations(self.checker.history, self.redactor), "gpu_usage": self.usage.summary}
        if self.proxy is None:
            return fields
        self.proxy.stop()  # the connections that are still open are recorded at their end
        return fields | {
            "connections": connections(self.proxy.connections, self.redactor),
            "unrecorded_connections": self.proxy.unrecorded,
        }


@contextmanager
def socket_folder() -> Iterator[Path]:
    """Yield a folder that a container's root can enter. On the host, its private parent folder protects it.

    The parent's name identifies its owner, for ``mlebench clean``.
    """
    base = tempfile.gettempdir() if len(tempfile.gettempdir()) < _LONGEST else "/tmp"
    outer = Path(tempfile.mkdtemp(prefix=owned_prefix(contract.SOCKETS), dir=base))
    try:
        inner = outer / "s"
        inner.mkdir()
        inner.chmod(0o755)
        yield inner
    finally:
        shutil.rmtree(outer, ignore_errors=True)


def raise_descriptor_limit() -> None:
    """Raise the limit on open files: an agent may open hundreds of connections to each of the harness's sockets."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _DESCRIPTORS if hard == resource.RLIM_INFINITY else min(_DESCRIPTORS, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def run_inside(
    wiring: Wiring,
    inside: Inside,
    order: Mapping[str, Any],
    *,
    gpu_advice: str,
    collect: Callable[[], object],
    watchers: Iterable[AbstractContextManager[object]] = (),
    waiting: Callable[[], None] = lambda: None,
) -> tuple[RunEnd, float]:
    """Start the agent in a container and wait for its end. Returns how it ended, and after how many seconds.

    ``order`` is the part of the order that depends on the runtime. ``gpu_advice`` ends the error if GPUs are missing.
    ``waiting`` is called when the first process waits for its order. The ``watchers`` are active while the agent runs.
    On any exception, the container is killed and ``collect`` is called before the exception is reraised.
    """
    task = wiring.task
    try:
        _start_agent(wiring, inside, order, gpu_advice, waiting)
        started = time.monotonic()
        with ExitStack() as stack:
            snapshots = taking_snapshots(task.snapshots, wiring.submission, wiring.redactor)
            for watcher in (*watchers, snapshots, wiring.usage):
                stack.enter_context(watcher)
            end = _await_end(wiring, inside)
        return end, time.monotonic() - started
    except BaseException:
        inside.kill()
        with suppress(SandboxError):  # the first error is the one to report
            collect()
        raise


def _start_agent(
    wiring: Wiring, inside: Inside, order: Mapping[str, Any], gpu_advice: str, waiting: Callable[[], None]
) -> None:
    """Send the container's first process its order. Returns once the agent runs."""
    task, channel = wiring.task, wiring.channel
    gpus = [gpu.uuid for gpu in wiring.gpus]
    try:
        channel.accept(timeout=START_SECONDS, alive=inside.alive)
        waiting()
        channel.send({**_order(wiring), "gpus": gpus, **order})
        answer = channel.receive(START_SECONDS)
        if not isinstance(answer, channels.Started | channels.GpusMissing):
            raise SandboxError("the container did not start the agent")
    except (channels.ControlChannelClosed, SandboxError) as error:
        inside.kill()
        inside.finish_output()
        output = tail(task.run_dir / RUN_LOG)
        reason = str(error) or "its first process ended"
        raise SandboxError(f"the container did not start: {reason}; its output ends with: {output}") from error
    if isinstance(answer, channels.GpusMissing):
        raise SandboxError(
            f"the container sees only {answer.seen} of the run's {pluralize(len(gpus), 'GPU')} "
            f"({', '.join(gpus)}), so the agent was not started: {gpu_advice}"
        )


def _order(wiring: Wiring) -> dict[str, Any]:
    task = wiring.task
    start = task.agent.start.relative_to(task.agent.folder).as_posix()
    environment = {
        **CONTAINER_DIRS,
        "DATA_DIR": DATA,
        "INSTRUCTIONS": f"{HOME}/{contract.INSTRUCTIONS}",
        "COMPETITION_ID": task.competition_id,
        **contract.clock(task.limits),
        "VALIDATION_URL": f"http://localhost:{wiring.ports.checker}",
        "PYTHONUNBUFFERED": "1",
        **(_proxy_variables(wiring.ports.proxy) if wiring.proxy is not None else {}),
        **task.launch.environment,
    }
    instructions = contract.render_instructions(
        data=DATA,
        submission=CONTAINER_DIRS["SUBMISSION_DIR"],
        logs=CONTAINER_DIRS["LOGS_DIR"],
        code=CONTAINER_DIRS["CODE_DIR"],
        validate=f"{HOME}/{contract.VALIDATE}",
        limits=task.limits,
    )
    return {
        "command": ["/bin/bash", f"{CONTAINER_DIRS['AGENT_DIR']}/{start}", *task.launch.arguments],
        "environment": environment,
        "files": {f"{HOME}/{contract.INSTRUCTIONS}": instructions},
        "relays": wiring.relays,
        "submission": None if task.snapshots is None else _SUBMISSION_SOCKET,
    }


def _proxy_variables(port: int) -> dict[str, str]:
    proxy, direct = f"http://localhost:{port}", "localhost,127.0.0.1,::1"
    variables = {"HTTP_PROXY": proxy, "HTTPS_PROXY": proxy, "ALL_PROXY": proxy, "NO_PROXY": direct}
    return variables | {name.lower(): value for name, value in variables.items()}


def _await_end(wiring: Wiring, inside: Inside) -> RunEnd:
    """Wait for the agent to end, and stop it when its time is over."""
    task, channel = wiring.task, wiring.channel
    time_limit = task.limits.time_limit
    deadline = time.monotonic() + time_limit
    try:
        while (left := deadline - time.monotonic()) > 0 and not task.is_stopped:
            # Wait in short steps, so that signal handlers can run in between on every platform.
            if message := channel.receive(min(left, _POLL_SECONDS)):
                return _end(message, inside)
        channel.send({"signal": "SIGTERM"})
        message = channel.receive(task.grace)
        return replace(_end(message, inside), time_limit=time_limit)
    except channels.ControlChannelClosed:
        over = time.monotonic() >= deadline
        return RunEnd(lost=True, time_limit=time_limit if over else None)


def _end(message: channels.Started | channels.AgentEnded | channels.GpusMissing | None, inside: Inside) -> RunEnd:
    kills = inside.oom_kills()  # the image cannot fake the host's count
    if not isinstance(message, channels.AgentEnded):
        return RunEnd(lost=message is not None, oom_kills=kills or 0)
    if kills is None:
        kills = message.oom_kills or 0
    return RunEnd(exit_code=message.exit_code, signal=message.signal, oom_kills=kills)
