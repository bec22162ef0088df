"""The container sandbox: each run gets its own confined container."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from docker.types import Mount

from pytest_mlebench.agents.registry import Agent
from pytest_mlebench.errors import SandboxError
from pytest_mlebench.io.processes import LABEL, owner_labels, sigterm_interrupts
from pytest_mlebench.io.progress import Reporter, silent
from pytest_mlebench.io.units import listed
from pytest_mlebench.records.outcome import Limits, SandboxAccount
from pytest_mlebench.records.record import COLLECTED, RUN_LOG, SUBMISSION
from pytest_mlebench.sandbox import collection
from pytest_mlebench.sandbox.contract import Execution, Task, check_agent_folder
from pytest_mlebench.sandbox.docker.client import (
    ACCEPT_PRIVILEGED,
    ContainerOptions,
    client_errors,
    free_space,
    has_quota,
)
from pytest_mlebench.sandbox.docker.container import (
    USERS,
    Container,
    configuration,
    create_mount_sources,
    layers,
    limited_disk,
    run_mounts,
    run_self_test,
    shared_data,
)
from pytest_mlebench.sandbox.docker.images import Images
from pytest_mlebench.sandbox.docker.podman import open_client
from pytest_mlebench.sandbox.gpus import Gpu, GpuPool
from pytest_mlebench.sandbox.limits import Machine, apply, describe, disk_share
from pytest_mlebench.sandbox.network.policy import check_form
from pytest_mlebench.sandbox.redaction import Redactor, tail
from pytest_mlebench.sandbox.wiring import CONTAINER_DIRS, HOME, Wiring, raise_descriptor_limit, run_inside

_NO_MOUNT = re.compile(r"mount", re.IGNORECASE)
"""Matches the error of a container runtime that cannot create a mount."""
_GPU_ADVICE = {
    "docker": "install NVIDIA's container toolkit and restart Docker, then try `mlebench doctor`",
    "podman": "run `nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml`, which describes GPUs to Podman",
}


class DockerSandbox:
    """Runs each agent in a container that is confined, watched, emptied at the end, and removed.

    ``changes`` override ``options`` by name. ``reporter`` gets notes about slow steps: builds, and waiting for GPUs.

    >>> DockerSandbox(network="none").name
    'docker'
    """

    name = "docker"

    def __init__(self, options: ContainerOptions | None = None, *, reporter: Reporter = silent, **changes: Any) -> None:
        self._options = options = replace(options or ContainerOptions(), **changes)
        self._gpu_pool = GpuPool(options.gpu_ids)
        self._reporter = reporter
        raise_descriptor_limit()
        self._engine = open_client(options.engine, options.runtime)
        self.name = self._engine.name
        self._info = self._engine.info
        self.images = Images(self._engine, options, reporter=reporter)
        self._limits = options.limits or Limits()
        self._disk_share = disk_share(free_space(self._info), options.workers)
        self._checked: list[Agent] = []

    def close(self) -> None:
        self._engine.close()

    def check(self, agent: Agent) -> None:
        if agent in self._checked:
            return
        if agent.privileged and not self._options.privileged:
            raise SandboxError(
                f"agent {agent.id} asks for a privileged container, which can do anything on this machine: allow it "
                f"with --allow-privileged or {ACCEPT_PRIVILEGED}=true, or confine it with --runtime sysbox-runc"
            )
        if self._info.get("OSType") != "linux":
            raise SandboxError(f"{self._engine.title} does not support Linux containers")
        if self._options.runtime:
            self._engine.check_runtime(self._options.runtime)
        missing = [name for name in self._engine.unenforced if name != "swap"]
        if missing and not self._options.allow_unenforced_limits:
            raise SandboxError(
                f"{self._engine.title} does not limit {listed(missing)}: {self._engine.why_unenforced}; "
                "to run without these limits, which the records will show, add --allow-unenforced-limits"
            )
        check_agent_folder(agent)
        self._gpu_pool.check(self._options.gpus)
        self._share(self._limits)
        check_form(agent, self._options.allow_hosts)
        self._checked.append(agent)

    def _share(self, limits: Limits) -> Limits:
        machine = Machine(cpus=int(self._info.get("NCPU") or 1), memory=int(self._info.get("MemTotal") or 0))
        return apply(limits, machine, workers=self._options.workers)

    def prepare(self, agent: Agent) -> None:
        self.check(agent)
        self.images.agent(agent)

    def test_image(self, image: str) -> None:
        self._test(image)
        if self._options.gpus:
            with self._gpu_pool.lease(self._options.gpus, self._reporter) as gpus:
                self._test(image, "gpus", gpus=gpus)

    def _test(self, image: str, *arguments: str, gpus: Sequence[Gpu] = ()) -> None:
        run_self_test(
            self._engine,
            image,
            *arguments,
            limits=self._share(self._limits),
            share=self._disk_share,
            gpus=gpus,
            runtime=self._options.runtime,
            reporter=self._reporter,
        )

    def test_gpus(self, image: str) -> int:
        """Compute in a container on each GPU that no run is using. Returns the number of these GPUs."""
        with self._gpu_pool.free() as gpus:
            if gpus:
                self._test(image, "gpus", gpus=gpus)
            return len(gpus)

    def run(self, task: Task) -> Execution:
        self.check(task.agent)
        task = replace(task, limits=self._share(task.limits))
        image = self.images.agent(task.agent)
        _check_readable(task.public)
        try:
            with ExitStack() as stack:
                return self._run(task, image, stack)
        except OSError as error:
            raise SandboxError(f"the {self._engine.title} sandbox failed: {error}") from error

    def _limited_disk(self, task: Task, image: str, stack: ExitStack) -> list[Mount]:
        """Return the mounts of the run's own disk, if possible. Raises SandboxError for volumes without a limit."""
        limit = task.limits.disk
        if limit is None:
            return []
        attributes = self.images.inspect(image)
        volumes = sorted({path.rstrip("/") for path in attributes["Config"].get("Volumes") or {}})
        image_layers = layers(attributes) if self._options.loop_disks else []
        if image_layers and not task.keep and not task.agent.privileged:
            return stack.enter_context(limited_disk(limit, image_layers, volumes))
        if volumes:
            raise SandboxError(
                f"agent {task.agent.id}: its Dockerfile declares VOLUME {', '.join(volumes)}, which no limit on disk "
                "space covers here: remove it, or run without --disk"
            )
        return []

    def _run(self, task: Task, image: str, stack: ExitStack) -> Execution:
        stack.enter_context(sigterm_interrupts())
        gpus = stack.enter_context(self._gpu_pool.lease(task.limits.gpus, self._reporter))
        wiring = Wiring(task, stack, gpus=gpus, network=self._options.network, allow_hosts=self._options.allow_hosts)
        task = wiring.task
        container = Container(self._engine, _container_name(task))
        if not task.keep:
            stack.callback(container.remove)
        stack.callback(container.close)
        stack.callback(container.kill)
        account = self._start(container, wiring, image, stack)
        own_disk = account.disk == "loop"
        watcher = None if own_disk else container.disk_watcher(task.limits.disk, self._disk_share)
        collect = partial(_collect, task, container, wiring.redactor)
        end, seconds = run_inside(
            wiring,
            container,
            {"user": secrets.choice(USERS)},
            gpu_advice=_GPU_ADVICE[self.name],
            collect=collect,
            watchers=[] if watcher is None else [watcher],
        )
        if watcher is not None and end.exit_code != 0:
            end = replace(end, disk_full=watcher.full)
        stopped = end.is_unexplained and container.was_stopped_from_outside()
        container.kill()
        left_out = collect()
        container.finish_output()
        if container.state().get("OOMKilled") and not end.oom_kills:
            end = replace(end, oom_kills=1)
        end = end.with_clues(task.limits, tail(task.run_dir / RUN_LOG))
        if stopped and end.is_unexplained:
            raise SandboxError(f"container {container.name} was stopped from outside")
        notes = (*account.notes, *wiring.redactor.notes)
        return end.execution(seconds, replace(account, notes=notes, **left_out, **wiring.account()))

    def _start(self, container: Container, wiring: Wiring, image: str, stack: ExitStack) -> SandboxAccount:
        """Start the container, whose first process then waits for its order. Returns what is known about it."""
        task, limits, options = wiring.task, wiring.task.limits, self._options
        network_mode = "none"
        if options.network == "full":
            with client_errors("create a network for a container"):
                network_mode = self._engine.full_network()
        disk = self._limited_disk(task, image, stack)
        runtime = options.runtime or self._engine.default_runtime
        quota = limits.disk if has_quota(self._info) and not disk else None
        create_mount_sources(wiring.folder.parent, task.public)

        def start(mounts: Sequence[Mount]) -> None:
            settings = configuration(
                limits,
                disk=disk,
                own=mounts,
                sockets=wiring.folder,
                network_mode=network_mode,
                gpus=wiring.gpus,
                runtime=options.runtime,
                privileged=task.agent.privileged,
                shm_bytes=options.shm_bytes,
            )
            container.create(image, settings, _labels(task), quota=quota)
            container.start(wiring.log.write)

        notes = [f"not enforced by {self._engine.title}: {name}" for name in self._engine.unenforced]
        try:
            start(run_mounts(wiring.folder.parent, runtime))
        except SandboxError as error:
            if not _NO_MOUNT.search(str(error)):
                raise
            container.close()
            container.remove()
            notes.append(f"the data files, and locks on them, are shared with other runs: {error}")
            start([shared_data(task.public)])
        enforced = "loop" if disk else "quota" if container.has_quota else "watched"
        return SandboxAccount(
            name=self.name,
            image=image,
            image_digest=self.images.digest(image),
            container=container.name,
            network=options.network,
            build_network=self.images.build_network_of(task.agent),
            runtime=runtime,
            privileged=task.agent.privileged,
            gpus=tuple(gpu.uuid for gpu in wiring.gpus),
            disk=enforced if limits.disk is not None else "watched" if self._disk_share is not None else "",
            limits=describe(limits if limits.disk is not None else replace(limits, disk=self._disk_share)),
            notes=tuple(notes),
            kept=f"container {container.name}" if task.keep else "",
        )


def _labels(task: Task) -> dict[str, str]:
    labels = {f"{LABEL}{key.replace('_', '-')}": value for key, value in task.labels.items()}
    return owner_labels() | labels | {f"{LABEL}keep": str(task.keep).lower()}  # even if false: images have labels too


def _container_name(task: Task) -> str:
    run = task.competition_id if task.anonymous else task.labels.get("run_id") or task.competition_id
    return f"mlebench-{re.sub(r'[^A-Za-z0-9_.-]+', '-', run)[:180]}-{secrets.token_hex(4)}"


def _check_readable(public: Path) -> None:
    if not public.is_dir():
        raise SandboxError(f"the public data {public} is not a folder")
    for path in (public, *public.iterdir()):
        wanted = 0o005 if path.is_dir() else 0o004
        if not path.is_symlink() and path.stat().st_mode & wanted != wanted:
            raise SandboxError(
                f"an agent in a container runs as another user, who cannot read {path}: chmod -R o+rX {public}"
            )


def _collect(task: Task, container: Container, redactor: Redactor) -> dict[str, Any]:
    """Collect the agent's files, whatever it did to its folders. Returns what was left out, for the account."""
    left_out: list[str] = []
    unnamed = 0
    budget = task.limits.disk  # counts the apparent size of sparse files
    with collection.FilesWriter(task.run_dir) as files:
        for name in COLLECTED:
            size = task.limits.collect_bytes if budget is None else min(task.limits.collect_bytes, budget)
            collector = collection.Collector(files, size, task.limits.collect_files, redactor)
            with _noted(collector, name), container.archive(CONTAINER_DIRS[f"{name.upper()}_DIR"]) as chunks:
                collection.collect_archive(chunks, [name], collector)
            if name == "submission" and collector.left_out and not (task.run_dir / SUBMISSION).exists():
                # In the stream, it may come after files that exceed the limits, so it is fetched alone.
                with _noted(collector, SUBMISSION), container.archive(f"{HOME}/{SUBMISSION}") as chunks:
                    collection.collect_submission(chunks, collector)
            left_out += collector.left_out
            unnamed += collector.unnamed
            if budget is not None:
                budget = max(0, budget - collector.collected_bytes)
    return {"left_out": tuple(left_out), "left_out_unnamed": unnamed}


@contextmanager
def _noted(collector: collection.Collector, what: str) -> Iterator[None]:
    """Note as left out what the engine cannot read, such as a link loop in place of a folder."""
    try:
        yield
    except collection.DiskFull:
        raise
    except SandboxError as error:
        collector.note(f"{what} ({error})")
