"""What the harness offers inside a container, and how it starts and awaits the agent there, whatever the runtime is.

The sockets lie in a folder that the container sees; its first process (``environment/init.py``) offers them at ports of
localhost. The exception is the control channel, by which that process gets its order and tells of the agent's end.
"""

from __future__ import annotations

import resource
import shutil
import socket
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from pytest_mlebench.errors import SandboxError
from pytest_mlebench.io.processes import owned
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
"""The build arguments that every agent's Dockerfile may count on."""
_POLL_SECONDS = 1.0
_SUBMISSION_SOCKET = "submission.sock"
_DESCRIPTORS = 4096
"""Of this process; many systems give 1,024."""
_LONGEST = 40
"""A socket's path has at most 107 bytes, so a temporary folder of a longer name will not do."""


class Inside(Protocol):
    """A container that runs, or may have ended."""

    def alive(self) -> bool: ...

    def kill(self) -> None:
        """End it now, with all its processes; does nothing where it does not run."""

    def finish_output(self) -> None:
        """Wait until all that it printed is in the log; raises SandboxError if the log could not be written."""

    def oom_kills(self) -> int | None:
        """How many processes the kernel killed for memory, read on the host; None where the host cannot read it."""


class Ports(NamedTuple):
    """The ports of localhost at which the agent finds the harness."""

    checker: int = PORT
    gateway: int = 5001
    steps: int = 5002
    proxy: int = 3128

    @classmethod
    def free(cls) -> Ports:
        """Ports that nobody listens at on this machine."""
        with ExitStack() as stack:
            probes = [stack.enter_context(socket.socket()) for _ in range(4)]
            for probe in probes:
                probe.bind(("127.0.0.1", 0))
            return cls(*(probe.getsockname()[1] for probe in probes))


@dataclass(frozen=True, kw_only=True)
class Wiring:
    """What a run's container and the harness have between them: sockets, the agent's GPUs, and its log."""

    task: contract.Task
    """With what the gateway has the agent start with."""
    folder: Path
    checker: SubmissionChecker
    channel: channels.ControlChannel
    submission: channels.SubmissionChannel
    proxy: Proxy | None
    ports: Ports
    relays: Mapping[str, str]
    """Names of sockets by the ports of localhost where the agent finds them."""
    gpus: Sequence[Gpu]
    usage: GpuUsage
    redactor: Redactor
    log: LogWriter

    def account(self) -> dict[str, Any]:
        """What came over the sockets and what the GPUs did, as fields of a ``SandboxAccount``."""
        made = {"validations": validations(self.checker.history, self.redactor), "gpu_usage": self.usage.summary}
        if self.proxy is None:
            return made
        return made | {
            "connections": connections(self.proxy.connections, self.redactor),
            "unrecorded_connections": self.proxy.unrecorded,
        }


def wire(
    task: contract.Task,
    stack: ExitStack,
    *,
    gpus: Sequence[Gpu],
    network: Network,
    allow_hosts: Iterable[str],
    own_network: bool = True,
) -> Wiring:
    """Open what the harness offers to a container, and the run's log, until the stack is closed.

    Without ``own_network`` the container has the ports of this machine, so the usual ones may be taken.
    """
    ports = Ports() if own_network else Ports.free()
    folder = stack.enter_context(socket_folder())
    checker = stack.enter_context(SubmissionChecker.of(task, unix_socket=folder / "checker.sock"))
    channel = stack.enter_context(channels.ControlChannel(folder / "control.sock"))
    relays = {str(ports.checker): "checker.sock"}
    through_gateway: Mapping[str, str] = {}
    if task.gateway is not None:
        through_gateway = task.gateway.hosts
        opened = task.gateway.open(folder / "llm.sock", url=f"http://localhost:{ports.gateway}")
        task = replace(task, launch=stack.enter_context(opened))
        relays[str(ports.gateway)] = "llm.sock"
    if task.steps is not None:
        stack.enter_context(task.steps.open(folder / "steps.sock"))
        relays[str(ports.steps)] = "steps.sock"
        task = contract.with_steps(task, f"localhost:{ports.steps}")
    proxy = None
    if network == "llm":
        allowed = endpoints(task.agent, task.launch, allow_hosts, without=through_gateway)
        proxy = stack.enter_context(Proxy(allowed, unix_socket=folder / "proxy.sock"))
        relays[str(ports.proxy)] = "proxy.sock"
    submission = stack.enter_context(channels.SubmissionChannel(folder / _SUBMISSION_SOCKET))
    task.run_dir.mkdir(parents=True, exist_ok=True)
    redactor = Redactor({*task.launch.secrets, *environment_secrets()})
    log = LogWriter(task.run_dir / RUN_LOG, task.limits.log_bytes, redactor)
    stack.callback(log.close)
    return Wiring(
        task=task,
        folder=folder,
        checker=checker,
        channel=channel,
        submission=submission,
        proxy=proxy,
        ports=ports,
        relays=relays,
        gpus=gpus,
        usage=GpuUsage(gpus),
        redactor=redactor,
        log=log,
    )


@contextmanager
def socket_folder() -> Iterator[Path]:
    """A folder that everybody may enter, so that a container's root can, but on the host only through a private one.

    Its parent's name says whose it is, for ``mlebench clean``.
    """
    base = tempfile.gettempdir() if len(tempfile.gettempdir()) < _LONGEST else "/tmp"
    outer = Path(tempfile.mkdtemp(prefix=owned(contract.SOCKETS), dir=base))
    try:
        inner = outer / "s"
        inner.mkdir()
        inner.chmod(0o755)
        yield inner
    finally:
        shutil.rmtree(outer, ignore_errors=True)


def want_descriptors() -> None:
    """Raise the limit of open files: an agent may open hundreds of connections to each of the harness's sockets."""
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
    """Start the agent in a container and await its end; returns that, and the seconds until then.

    ``order`` is what depends on the runtime; ``gpu_advice`` says what to do where GPUs are missing; ``waiting`` is
    called when the first process waits for its order. The ``watchers`` watch while the agent runs. Whatever is raised,
    the container is ended and ``collect`` called before.
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
    """Give the container's first process its order; returns when the agent runs."""
    task, channel = wiring.task, wiring.channel
    gpus = [gpu.uuid for gpu in wiring.gpus]
    try:
        channel.accept(timeout=START_SECONDS, alive=inside.alive)
        waiting()
        channel.send({**_order(wiring), "gpus": gpus, **order})
        answer = channel.receive(START_SECONDS)
        if not isinstance(answer, channels.Started | channels.GpusMissing):
            raise SandboxError("the container does not start the agent")
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
        "relays": dict(wiring.relays),
        "submission": None if task.snapshots is None else _SUBMISSION_SOCKET,
    }


def _proxy_variables(port: int) -> dict[str, str]:
    proxy, own = f"http://localhost:{port}", "localhost,127.0.0.1,::1"
    variables = {"HTTP_PROXY": proxy, "HTTPS_PROXY": proxy, "ALL_PROXY": proxy, "NO_PROXY": own}
    return variables | {name.lower(): value for name, value in variables.items()}


def _await_end(wiring: Wiring, inside: Inside) -> RunEnd:
    """Wait for the agent's end, or make one when its time is over."""
    task, channel = wiring.task, wiring.channel
    time_limit = task.limits.time_limit
    deadline = time.monotonic() + time_limit
    try:
        while (left := deadline - time.monotonic()) > 0 and not task.is_stopped:
            # In short steps: a signal's handler runs between two of them, whatever the platform.
            if message := channel.receive(min(left, _POLL_SECONDS)):
                return _end(message, inside)
        channel.send({"signal": "SIGTERM"})
        message = channel.receive(task.grace)
        return replace(_end(message, inside), time_limit=time_limit)
    except channels.ControlChannelClosed:
        over = time.monotonic() >= deadline
        return RunEnd(lost=True, time_limit=time_limit if over else None)


def _end(message: channels.Started | channels.AgentEnded | channels.GpusMissing | None, inside: Inside) -> RunEnd:
    kills = inside.oom_kills()  # the host's count is not the image's to fake
    if not isinstance(message, channels.AgentEnded):
        return RunEnd(lost=message is not None, oom_kills=kills or 0)
    if kills is None:
        kills = message.oom_kills or 0
    return RunEnd(exit_code=message.exit_code, signal=message.signal, oom_kills=kills)
