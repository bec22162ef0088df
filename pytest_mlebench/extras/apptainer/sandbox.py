"""A sandbox for clusters without a container daemon: each run in an Apptainer container, started by an ordinary user.

What the agent writes lands in a folder of the run on the node's local disk, which is removed afterwards.
"""

from __future__ import annotations

import os
import resource
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import cast

from pytest_mlebench import Agent, Execution, Limits, Note, SandboxAccount, SandboxError, WarningNote
from pytest_mlebench.bench import Bench
from pytest_mlebench.extras.apptainer import probe
from pytest_mlebench.extras.apptainer.container import ApptainerContainer, MemoryWatcher
from pytest_mlebench.extras.apptainer.disk import CONFINED, NO_NETWORK, Disk, scratch_folder
from pytest_mlebench.extras.apptainer.filter import compiled
from pytest_mlebench.extras.apptainer.images import SifImages
from pytest_mlebench.extras.apptainer.program import InstalledProgram, find_program
from pytest_mlebench.io.files import bundled
from pytest_mlebench.io.processes import sigterm_interrupts
from pytest_mlebench.io.units import format_size, listed, pluralize
from pytest_mlebench.records.record import RUN_LOG
from pytest_mlebench.sandbox.collection import Collector, FilesWriter
from pytest_mlebench.sandbox.contract import Task, check_agent_folder, clean_folders
from pytest_mlebench.sandbox.gpus import GpuPool
from pytest_mlebench.sandbox.limits import (
    DiskWatcher,
    FreeSpaceWatcher,
    RunEnd,
    apply,
    delegated,
    describe,
    disk_share,
    memory_limit,
    own_processors,
)
from pytest_mlebench.sandbox.local.sandbox import link_tree
from pytest_mlebench.sandbox.network.policy import Network, check_form
from pytest_mlebench.sandbox.redaction import Redactor, tail
from pytest_mlebench.sandbox.wiring import DATA, run_inside, want_descriptors, wire

_HARNESS = "/opt/mlebench-harness"
_INIT = "/opt/mlebench/init.py"
_PYTHON = "/usr/bin/python3"
_PROBE_SECONDS = 120.0
_SHARES, _LEAST = 32, 1024
"""Of what the kernel counts for each user a run gets one part of so many, and at least this number."""
_GPU_ADVICE = "is this job given GPUs, and does `apptainer exec --nv` find NVIDIA's libraries?"


class ApptainerSandbox:
    """Runs each agent in an Apptainer container. ``bench`` has the options.

    >>> from pytest_mlebench import Bench
    >>> ApptainerSandbox(Bench(sandbox="apptainer")).name
    'apptainer'
    """

    name = "apptainer"

    def __init__(self, bench: Bench) -> None:
        self._settings = bench.settings
        self._limits, self._workers, self._reporter = bench.limits, bench.workers, bench.reporter
        self._disk_share = disk_share(free_space(Path(tempfile.gettempdir())), bench.workers)
        self._gpu_pool = GpuPool(bench.settings.gpu_ids)
        self.images = SifImages(bench)
        self._abilities: dict[str, probe.Abilities] = {}
        want_descriptors()

    @cached_property
    def _program(self) -> InstalledProgram:
        return find_program()

    def check(self, agent: Agent) -> None:
        if agent.privileged:
            raise SandboxError(f"agent {agent.id} asks for a privileged container, which Apptainer does not give")
        if self._settings.runtime is not None:
            raise SandboxError("--runtime is for Docker and Podman: leave it out with --sandbox=apptainer")
        _ = self._program
        check_agent_folder(agent)
        self._gpu_pool.check(self._settings.gpus)
        apply(self._limits, workers=self._workers)
        check_form(agent, self._settings.allow_hosts)

    def prepare(self, agent: Agent) -> None:
        self.check(agent)
        clean_folders(reporter=self._reporter)  # what killed jobs left on this node
        abilities = self._probed(self.images.agent(agent))
        if abilities.unenforced:
            self._reporter(WarningNote(f"runs have no limit on {listed([*abilities.unenforced])}"))
        if self._settings.network == "full":
            self._reporter(
                WarningNote(
                    "--network=full shares this machine's network with agents: they reach whatever your user reaches "
                    "on the cluster, and each other"
                )
            )

    def describe(self) -> Iterator[tuple[str, str]]:
        try:
            version = self._program.version
        except SandboxError as error:
            if shutil.which("docker") is None:  # with Docker, nobody needs Apptainer
                yield "note", str(error)
            return
        files = sorted(self.images.folder.glob("*.sif"))
        size = format_size(sum(file.stat().st_size for file in files))
        yield "ok", f"{version}, {pluralize(len(files), 'image')} ({size}) in {self.images.folder}: --sandbox=apptainer"
        if not files:
            yield "note", "to test what its containers can do, build an image: mlebench build --sif=DIR dummy"
            return
        try:
            abilities = self._probed(files[0].stem)
        except SandboxError as error:
            yield "problem", str(error)
        else:
            yield "ok", "; ".join(abilities.notes)

    def test_image(self, image: str) -> None:
        with scratch_folder() as scratch:
            command = self._command(image, Disk(self._program, scratch, None), network="none", gpus=0)
            self._program.call(*command[1:], "/opt/agent/bin/python", "-u", "/opt/mlebench/check.py")

    def _probed(self, image: str) -> probe.Abilities:
        """What containers of this image have; raises SandboxError where that is not enough for an agent."""
        if image not in self._abilities:
            found = self._probe(image, None, None)
            if delegated():
                try:
                    found = self._probe(image, None, probe.LIMITS)
                except SandboxError as error:
                    self._reporter(Note(f"runs get no control group of their own: {error}"))
            if self._limits.disk is not None or self._settings.disk is not None:
                try:
                    found = replace(found, disk=self._probe(image, probe.DISK, None).disk)
                except SandboxError as error:
                    self._reporter(Note(f"runs get no disk of their own: {error}"))
            self._abilities[image] = found
        abilities = self._abilities[image]
        if abilities.unenforced and not self._settings.allow_unenforced_limits:
            raise SandboxError(
                f"this installation of Apptainer keeps no limit on {listed([*abilities.unenforced])}: "
                f"{'; '.join(dict.fromkeys(abilities.unenforced.values()))}; run without these limits with "
                "--allow-unenforced-limits, which the records will say"
            )
        if not abilities.writable:
            raise SandboxError("containers of this Apptainer cannot be written to: install fuse-overlayfs")
        return abilities

    def _probe(self, image: str, disk: int | None, group: Limits | None) -> probe.Abilities:
        network = self._settings.network
        with scratch_folder() as scratch:
            command = self._command(image, Disk(self._program, scratch, disk), network=network, gpus=0, group=group)
            binds = [f"{bundled('environment')}/init.py:{_INIT}:ro"]
            binds += [f"/sys/fs/cgroup:{probe.GROUPS}:ro"] if group is not None else []
            command[-1:] = [*(word for bind in binds for word in ("--bind", bind)), command[-1]]
            program = [_PYTHON, "-I", "-c", probe.PROGRAM, str(disk or 0), _INIT, *filter(None, [compiled()])]
            try:
                output = self._program.call(*command[1:], *program, timeout=_PROBE_SECONDS)
            except SandboxError as error:
                raise SandboxError(f"{self._program.version} starts no confined container: {error}") from error
        return probe.read(output, network=network == "full")

    def _command(self, image: str, disk: Disk, *, network: str, gpus: int, group: Limits | None = None) -> list[str]:
        """The command that starts a container, up to the program that is to run in it."""
        options = [
            *(*CONFINED, "--pwd", self.images.workdir(image), *disk.options),
            *(() if network == "full" else NO_NETWORK),
            *(("--nv",) if gpus else ()),
            *_group(group),
        ]
        return [self._program.path, "--silent", "exec", *options, str(self.images.file(image))]

    def run(self, task: Task) -> Execution:
        self.check(task.agent)
        task = replace(task, limits=apply(task.limits, workers=self._workers))
        image = self.images.agent(task.agent)
        abilities = self._probed(image)
        try:
            with ExitStack() as stack:
                return self._run(task, image, abilities, stack)
        except OSError as error:
            raise SandboxError(f"the Apptainer sandbox failed: {error}") from error

    def _run(self, task: Task, image: str, abilities: probe.Abilities, stack: ExitStack) -> Execution:
        stack.enter_context(sigterm_interrupts())
        gpus = stack.enter_context(self._gpu_pool.lease(task.limits.gpus, self._reporter))
        network = cast("Network", self._settings.network)
        visible = {"CUDA_VISIBLE_DEVICES": ",".join(gpu.uuid for gpu in gpus)}
        task = replace(task, launch=replace(task.launch, environment={**visible, **task.launch.environment}))
        allowed = self._settings.allow_hosts
        wiring = wire(task, stack, gpus=gpus, network=network, allow_hosts=allowed, own_network=network != "full")
        task = wiring.task
        scratch = stack.enter_context(scratch_folder(keep=task.keep))
        container = ApptainerContainer()
        stack.callback(container.close)
        stack.callback(container.kill)
        disk = Disk(self._program, scratch, task.limits.disk if abilities.disk else None)
        group = task.limits if abilities.groups else None
        command = self._command(image, disk, network=network, gpus=len(gpus), group=group)
        mounts = _mounts(scratch, task, wiring.folder, disk)
        program = [_PYTHON, "-I", _INIT, _HARNESS]
        container.start(
            [*command[:-1], *mounts, command[-1], *program], [] if group else own_processors(task), wiring.log
        )
        watched, share = (None, None) if disk.is_limited else (task.limits.disk, self._disk_share)
        space = _disk_watcher(watched, scratch, container, share)
        memory = MemoryWatcher(task.limits.memory or 0, container, container.kill)
        collect = partial(_collect, task, disk, self.images.file(image), wiring.redactor)
        numbers = _numbers(task.limits, grouped=group is not None)
        end, seconds = run_inside(
            wiring,
            container,
            {"limits": numbers, "user": os.getuid(), "filter": compiled()},
            gpu_advice=_GPU_ADVICE,
            collect=collect,
            watchers=[space, memory] if group is None else [space],
            waiting=container.find_first,
        )
        container.kill()
        collector = collect()
        container.finish_output()
        wiring.log.close()
        end = _complete(end, space, memory, task)
        given = task.limits if task.limits.disk is not None else replace(task.limits, disk=self._disk_share)
        account = SandboxAccount(
            name=self.name,
            image=image,
            image_digest=self.images.digest(image),
            network=network,
            build_network=self.images.build_network_of(task.agent),
            runtime=self._program.version,
            gpus=tuple(gpu.uuid for gpu in gpus),
            limits=describe(given),
            disk="image" if disk.is_limited else "watched",
            notes=(*abilities.notes, *_job_notes()),
            left_out=tuple(collector.left_out),
            left_out_unnamed=collector.unnamed,
            kept=str(scratch) if task.keep else "",
            **wiring.account(),
        )
        return end.execution(seconds, account)


def create(bench: Bench) -> ApptainerSandbox:
    return ApptainerSandbox(bench)


def _mounts(scratch: Path, task: Task, sockets: Path, disk: Disk) -> list[str]:
    """The options that bind what the run has into its container."""
    if task.anonymous:  # the container's table of mounts has the path of the data
        (scratch / "data").mkdir()
        link_tree(task.public, scratch / "data")
    else:  # a link, because `:` and `,` in a bind's path would separate its parts
        (scratch / "data").symlink_to(task.public.resolve())
    shutil.copyfile(bundled("environment") / "init.py", scratch / "init.py")
    (scratch / "hosts").write_text("127.0.0.1\tlocalhost sandbox\n::1\tlocalhost ip6-localhost\n")
    binds = {
        # Not all of it, as control groups of the user's jobs may be the user's to change.
        "/sys/devices/system": "/sys/devices/system:ro",
        f"{scratch}/hosts": "/etc/hosts:ro",
        f"{scratch}/data": f"{DATA}:ro",
        f"{scratch}/init.py": f"{_INIT}:ro",
        str(sockets): f"{_HARNESS}:ro",
        **disk.binds(),
    }
    return [word for source, target in binds.items() for word in ("--bind", f"{source}:{target}")]


def _group(limits: Limits | None) -> list[str]:
    """The options that give a container a control group of its own."""
    if limits is None:
        return []
    options = ["--pids-limit", str(limits.processes)]
    options += ["--memory", str(limits.memory), "--memory-swap", str(limits.memory)] if limits.memory else []
    return options + (["--cpus", f"{limits.cpus:g}"] if limits.cpus else [])


def _numbers(limits: Limits, *, grouped: bool) -> dict[str, int]:
    """The kernel's limits for the agent's processes.

    It counts some things for each user, whatever namespace they are in: a run that takes its share leaves enough for
    the harness and for other runs of the user.
    """
    numbers = {"RLIMIT_CORE": 0}
    for name in ("RLIMIT_NOFILE", "RLIMIT_SIGPENDING", "RLIMIT_MSGQUEUE"):
        hard = resource.getrlimit(getattr(resource, name))[1]
        if hard != resource.RLIM_INFINITY:
            numbers[name] = max(hard // _SHARES, min(hard, _LEAST))
    hard = resource.getrlimit(resource.RLIMIT_NPROC)[1]
    most = limits.processes if hard == resource.RLIM_INFINITY else min(limits.processes, hard // 2)
    numbers |= {} if grouped else {"RLIMIT_NPROC": most}
    if limits.disk is not None:  # at once, and not only when somebody looks
        numbers["RLIMIT_FSIZE"] = limits.disk
    return numbers


def _disk_watcher(limit: int | None, scratch: Path, container: ApptainerContainer, share: int | None) -> DiskWatcher:
    written = partial(_written, scratch)
    if limit is None:
        return FreeSpaceWatcher(partial(free_space, scratch), written, container.kill, share=share)
    return DiskWatcher(limit, written, container.kill)


def free_space(scratch: Path) -> int | None:
    """Bytes that are free where runs write."""
    return shutil.disk_usage(scratch).free


def _written(scratch: Path) -> int | None:
    """Bytes on the disk below the run's folder; None where a folder cannot be looked into."""
    total, seen = 0, set()
    waiting = [str(scratch)]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    about = entry.stat(follow_symlinks=False)
                    if about.st_nlink > 1 and not entry.is_dir(follow_symlinks=False):
                        if about.st_ino in seen:
                            continue
                        seen.add(about.st_ino)
                    total += about.st_blocks * 512
                    if entry.is_dir(follow_symlinks=False) and entry.path != f"{scratch}/overlay/work":
                        waiting.append(entry.path)
        except FileNotFoundError:
            continue
        except OSError:
            return None
    return total


def _job_notes() -> Iterator[str]:
    """What the record says of the batch system's limit, which the harness shares with the agent."""
    if (limit := memory_limit(os.getpid())) is not None:
        yield f"the control group of the job limits memory to {format_size(limit)}"


def _complete(end: RunEnd, disk: DiskWatcher, memory: MemoryWatcher, task: Task) -> RunEnd:
    if end.exit_code != 0:
        end = replace(end, disk_full=disk.full, out_of_memory=memory.full)
    return end.with_clues(task.limits, tail(task.run_dir / RUN_LOG))


def _collect(task: Task, disk: Disk, image: Path, redactor: Redactor) -> Collector:
    """Take out what the agent left; the collector says what was left out."""
    limits = task.limits
    size = limits.collect_bytes if limits.disk is None else min(limits.collect_bytes, limits.disk)
    with FilesWriter(task.run_dir) as files:
        collector = Collector(files, size, limits.collect_files, redactor)
        disk.collect(image, collector)
    return collector
