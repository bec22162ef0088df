"""A sandbox that an agent can neither cheat nor break: a container of its own for every run."""

from __future__ import annotations

import logging
import os
import re
import secrets
import signal
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from pytest_mlebench.agents.definition import Agent, Launch
from pytest_mlebench.errors import SandboxError
from pytest_mlebench.sandbox.archive import collect_archive, collect_file
from pytest_mlebench.sandbox.base import COLLECTED, RUN_LOG, SUBMISSION, Execution, Task
from pytest_mlebench.sandbox.checker import PORT, SubmissionChecker
from pytest_mlebench.sandbox.collect import Collector
from pytest_mlebench.sandbox.container import Container, configuration, provide_full_network
from pytest_mlebench.sandbox.disk import DiskWatcher, has_quota
from pytest_mlebench.sandbox.endings import End
from pytest_mlebench.sandbox.engine import connect, engine_info
from pytest_mlebench.sandbox.gpus import GpuPool
from pytest_mlebench.sandbox.images import BASE_IMAGE, PLACES, Images, Progress
from pytest_mlebench.sandbox.instructions import INSTRUCTIONS, VALIDATE, render_instructions
from pytest_mlebench.sandbox.line import Line, LineBroken
from pytest_mlebench.sandbox.logs import LogWriter, tail
from pytest_mlebench.sandbox.network import NETWORKS, Network, endpoints
from pytest_mlebench.sandbox.owner import LABEL, owner_labels
from pytest_mlebench.sandbox.proxy import Proxy
from pytest_mlebench.sandbox.run_folder import socket_folder
from pytest_mlebench.sandbox.signals import sigterm_interrupts

logger = logging.getLogger(__name__)

GRACE_SECONDS = 5.0
START_SECONDS = 120.0
PROXY_PORT = 3128
HOME = "/home"
DATA = f"{HOME}/data"
ACCEPT_PRIVILEGED = "I_ACCEPT_RUNNING_PRIVILEGED_CONTAINERS"
_POLL_SECONDS = 1.0


class DockerSandbox:
    """Runs each agent in a container: confined, watched, emptied at the end, and removed.

    ``network`` is the policy (see ``pytest_mlebench.sandbox.network``); ``allow_hosts`` are let through beside the
    agent's own. ``gpus`` is how many GPUs each run will ask for, checked up front; ``gpu_ids`` restricts to some.
    ``shm_bytes`` is the size of ``/dev/shm``, which counts as memory. ``progress`` is given what takes long, line by
    line: builds, and waiting for GPUs.

    The runtime ``runsc`` (gVisor) has to be told to let containers open the host's Unix sockets (``--host-uds=open``).
    """

    name = "docker"

    def __init__(
        self,
        *,
        network: Network = "llm",
        allow_hosts: Iterable[str] = (),
        runtime: str | None = None,
        allow_privileged: bool = False,
        gpus: int = 0,
        gpu_ids: Sequence[str] = (),
        shm_bytes: int = 1 << 30,
        base_image: str | None = None,
        heavy: bool = False,
        build_arguments: Mapping[str, str] | None = None,
        progress: Progress = logger.info,
    ) -> None:
        if network not in NETWORKS:
            raise SandboxError(f"network policy {network!r} must be one of {', '.join(NETWORKS)}")
        self._network = network
        self._allow_hosts = tuple(allow_hosts)
        self._runtime = runtime
        self._privileged = allow_privileged or os.environ.get(ACCEPT_PRIVILEGED, "").lower() in ("1", "true", "yes")
        self._gpus = gpus
        self._gpu_pool = GpuPool(gpu_ids)
        self._shm_bytes = shm_bytes
        self._progress = progress
        self._client = connect()
        self._info = engine_info(self._client)
        self.images = Images(
            self._client, base_image=base_image or BASE_IMAGE, heavy=heavy, arguments=build_arguments, progress=progress
        )

    def check(self, agent: Agent) -> None:
        if agent.privileged and not self._privileged:
            raise SandboxError(
                f"agent {agent.id} asks for a privileged container, which can do anything on this machine: allow it "
                f"with --allow-privileged or {ACCEPT_PRIVILEGED}=true, or confine it with --runtime sysbox-runc"
            )
        if self._info.get("OSType") != "linux":
            raise SandboxError("the Docker engine runs no Linux containers")
        runtimes = self._info.get("Runtimes") or {}
        if self._runtime and self._runtime not in runtimes:
            raise SandboxError(
                f"the Docker engine has no runtime {self._runtime}, only {', '.join(sorted(runtimes))}: install it and "
                "name it in /etc/docker/daemon.json"
            )
        self._gpu_pool.check(self._gpus)
        for host in (*agent.llm_hosts, *self._allow_hosts):
            endpoints(agent, _NOTHING, [host])

    def prepare(self, agent: Agent) -> None:
        self.check(agent)
        self.images.agent(agent)

    def run(self, task: Task) -> Execution:
        self.check(task.agent)
        image = self.images.agent(task.agent)
        _check_readable(task.public)
        try:
            with ExitStack() as stack:
                return self._run(task, image, stack)
        except OSError as error:
            raise SandboxError(f"the Docker sandbox failed: {error}") from error

    def _run(self, task: Task, image: str, stack: ExitStack) -> Execution:
        limits, launch = task.limits, task.launch
        stack.enter_context(sigterm_interrupts())
        gpus = stack.enter_context(self._gpu_pool.lease(limits.gpus, self._progress))
        sockets = stack.enter_context(socket_folder())
        checker = stack.enter_context(SubmissionChecker(task.validate, unix_socket=sockets / "checker.sock"))
        line = stack.enter_context(Line(sockets / "line.sock"))
        relays = {str(PORT): "checker.sock"}
        proxy = None
        if self._network == "llm":
            allowed = endpoints(task.agent, launch, self._allow_hosts)
            proxy = stack.enter_context(Proxy(allowed, unix_socket=sockets / "proxy.sock"))
            relays[str(PROXY_PORT)] = "proxy.sock"
        elif self._network == "full":
            provide_full_network(self._client)

        task.run_dir.mkdir(parents=True, exist_ok=True)
        log = LogWriter(task.run_dir / RUN_LOG, limits.log_bytes, launch.secrets)
        stack.callback(log.close)
        container = Container(self._client, _container_name(task))
        if not task.keep:
            stack.callback(container.remove)
        stack.callback(container.kill)
        about: dict[str, Any] = {
            "name": self.name,
            "image": image,
            "image_digest": self.images.digest(image),
            "container": container.name,
            "network": self._network,
            "runtime": self._runtime or self._info.get("DefaultRuntime"),
            "privileged": task.agent.privileged,
            "gpus": [gpu.uuid for gpu in gpus],
        }
        settings = configuration(
            limits,
            public=task.public,
            sockets=sockets,
            full_network=self._network == "full",
            gpus=gpus,
            runtime=self._runtime,
            privileged=task.agent.privileged,
            shm_bytes=self._shm_bytes,
            engine_cpus=int(self._info.get("NCPU") or 1),
        )
        quota = limits.disk if has_quota(self._info) else None
        container.create(image, settings, _labels(task), quota=quota)
        watcher = None
        if limits.disk is not None:
            about["disk"] = "quota" if container.has_quota else "watched"
            watcher = DiskWatcher(limits.disk, container.written, container.kill)
        try:
            container.start(log)
            _hand_over(task, line, container, relays)
            started = time.monotonic()
            with watcher or ExitStack():
                end = _await(line, limits.time_limit)
            seconds = time.monotonic() - started
        except BaseException:
            container.kill()
            with suppress(SandboxError):  # the first trouble is the one to tell
                _collect(task, container)
            raise
        container.kill()
        about |= _collect(task, container)
        container.finish_output()
        end = _complete(end, container, watcher, tail(task.run_dir / RUN_LOG))
        if end.is_unexplained:
            raise SandboxError(f"container {container.name} was stopped from outside")
        ending, detail = end.judge()
        about["validations"] = list(checker.history)
        if proxy is not None:
            about["connections"] = list(proxy.connections)
            about["unrecorded_connections"] = proxy.unrecorded
        return Execution(
            ending=ending,
            seconds=seconds,
            exit_code=end.exit_code,
            signal=end.signal,
            detail=detail,
            sandbox=about,
            kept=f"container {container.name}" if task.keep else "",
        )


_NOTHING = Launch()


def _labels(task: Task) -> dict[str, str]:
    own = {f"{LABEL}{key.replace('_', '-')}": value for key, value in task.labels.items()}
    return owner_labels() | own | ({f"{LABEL}keep": "true"} if task.keep else {})


def _container_name(task: Task) -> str:
    run = task.labels.get("run_id") or task.competition_id
    return f"mlebench-{re.sub(r'[^A-Za-z0-9_.-]+', '-', run)[:180]}-{secrets.token_hex(4)}"


def _check_readable(public: Path) -> None:
    if not public.is_dir():
        raise SandboxError(f"the public data {public} is not a folder")
    for path in (public, *public.iterdir()):
        wanted = 0o005 if path.is_dir() else 0o004
        if not path.is_symlink() and path.stat().st_mode & wanted != wanted:
            raise SandboxError(
                f"an agent in a container is another user and may not read {path}: chmod -R o+rX {public}"
            )


def _hand_over(task: Task, line: Line, container: Container, relays: Mapping[str, str]) -> None:
    """Tell the container's first process what to run; returns when the agent runs."""
    start = task.agent.start.relative_to(task.agent.folder).as_posix()
    environment = {
        **PLACES,
        "DATA_DIR": DATA,
        "COMPETITION_ID": task.competition_id,
        "TIME_LIMIT_SECS": f"{task.limits.time_limit:g}",
        "VALIDATION_URL": f"http://localhost:{PORT}",
        "PYTHONUNBUFFERED": "1",
        **(_proxy_variables() if str(PROXY_PORT) in relays else {}),
        **task.launch.environment,
    }
    instructions = render_instructions(
        data=DATA,
        submission=PLACES["SUBMISSION_DIR"],
        logs=PLACES["LOGS_DIR"],
        code=PLACES["CODE_DIR"],
        validate=f"{HOME}/{VALIDATE}",
        time_limit=task.limits.time_limit,
    )
    order = {
        "command": ["/bin/bash", f"{PLACES['AGENT_DIR']}/{start}", *task.launch.arguments],
        "environment": environment,
        "files": {f"{HOME}/{INSTRUCTIONS}": instructions},
        "relays": dict(relays),
    }
    try:
        line.accept(timeout=START_SECONDS, alive=container.alive)
        line.send(order)
        if line.receive(START_SECONDS) is None:
            raise SandboxError("the container does not start the agent")
    except (LineBroken, SandboxError) as error:
        container.kill()
        container.finish_output()
        said = tail(task.run_dir / RUN_LOG)
        raise SandboxError(f"the container did not come up: {error or 'its first process ended'}; {said}") from error


def _proxy_variables() -> dict[str, str]:
    proxy, own = f"http://localhost:{PROXY_PORT}", "localhost,127.0.0.1,::1"
    variables = {"HTTP_PROXY": proxy, "HTTPS_PROXY": proxy, "ALL_PROXY": proxy, "NO_PROXY": own}
    return variables | {name.lower(): value for name, value in variables.items()}


def _await(line: Line, time_limit: float) -> End:
    """Wait for the agent's end, or make one when its time is over."""
    deadline = time.monotonic() + time_limit
    try:
        while (left := deadline - time.monotonic()) > 0:
            # In short steps: a signal's handler runs between two of them, whatever the platform.
            if message := line.receive(min(left, _POLL_SECONDS)):
                return _end(message)
        line.send({"signal": "SIGTERM"})
        message = line.receive(GRACE_SECONDS)
        return replace(_end(message or {}), time_limit=time_limit)
    except LineBroken:
        over = time.monotonic() >= deadline
        return End(lost=True, time_limit=time_limit if over else None)


def _end(message: Mapping[str, Any]) -> End:
    return End(
        exit_code=message.get("exit_code"), signal=message.get("signal"), oom_kills=message.get("oom_kills") or 0
    )


def _complete(end: End, container: Container, watcher: DiskWatcher | None, log_tail: str) -> End:
    """Add what the engine and the disk tell."""
    state = container.state()
    if state.get("OOMKilled") and not end.oom_kills:
        end = replace(end, oom_kills=1)
    if watcher is None or end.exit_code == 0:
        return end
    full = watcher.full
    if not full and (end.signal == "SIGXFSZ" or end.exit_code == 128 + signal.SIGXFSZ or "File too large" in log_tail):
        full = f"a file grew over the limit of {watcher.limit:,} bytes"
    if not full and "No space left on device" in log_tail:
        full = f"the limit is {watcher.limit:,} bytes"
    return replace(end, disk_full=full)


def _collect(task: Task, container: Container) -> dict[str, Any]:
    """Take out what the agent left; what is not taken is told."""
    left_out: list[str] = []
    unnamed = 0
    for name in COLLECTED:
        collector = Collector(task.limits.collect_bytes, task.limits.collect_files, task.launch.secrets)
        place = PLACES[f"{name.upper()}_DIR"]
        with container.archive(place) as chunks:
            collect_archive(chunks, task.run_dir / name, collector)
        result = task.run_dir / SUBMISSION
        if name == "submission" and collector.left_out and not result.exists():
            # It may stand behind others in the stream that are too much; what counts is this one.
            with container.archive(f"{HOME}/{SUBMISSION}") as chunks:
                collect_file(chunks, result, collector)
        left_out += collector.left_out
        unnamed += collector.unnamed
    return {"left_out": left_out, "left_out_unnamed": unnamed}
