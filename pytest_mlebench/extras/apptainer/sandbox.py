"""A sandbox for clusters without a container daemon: an ordinary user starts an Apptainer container for each run.

The agent's files are written to a folder on the node's local disk, which is removed afterwards.
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
from pytest_mlebench.io.files import bundled, free_bytes
from pytest_mlebench.io.processes import sigterm_interrupts
from pytest_mlebench.io.units import format_size, listed, pluralize
from pytest_mlebench.records.record import RUN_LOG
from pytest_mlebench.sandbox.collection import Collector, FilesWriter
from pytest_mlebench.sandbox.contract import Task, check_agent_folder, clean_folders
from pytest_mlebench.sandbox.dockerfile import ENVIRONMENT
from pytest_mlebench.sandbox.gpus import GpuPool
from pytest_mlebench.sandbox.limits import (
    TEST_SECONDS,
    DiskWatcher,
    apply,
    assigned_processors,
    delegated,
    describe,
    disk_share,
    memory_limit,
)
from pytest_mlebench.sandbox.local.sandbox import link_tree
from pytest_mlebench.sandbox.network.policy import Network, check_form
from pytest_mlebench.sandbox.redaction import Redactor, tail
from pytest_mlebench.sandbox.wiring import DATA, Wiring, raise_descriptor_limit, run_inside

_HARNESS = "/opt/mlebench-harness"
_INIT = "/opt/mlebench/init.py"
_PYTHON = "/usr/bin/python3"
_PROBE_SECONDS = 120.0
_SHARES_PER_USER, _MIN_PER_RUN = 32, 1024
"""If the kernel limits a resource per user, a run gets one of this many shares, but at least this number."""
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
        self._disk_share = disk_share(free_bytes(Path(tempfile.gettempdir())), bench.workers)
        self._gpu_pool = GpuPool(bench.settings.gpu_ids)
        self.images = SifImages(bench)
        self._abilities: dict[str, probe.Abilities] = {}
        raise_descriptor_limit()

    @cached_property
    def _program(self) -> InstalledProgram:
        return find_program()

    def check(self, agent: Agent) -> None:
        if agent.privileged:
            raise SandboxError(f"agent {agent.id} asks for a privileged container, which Apptainer does not support")
        if self._settings.runtime is not None:
            raise SandboxError("--runtime is only for Docker and Podman: remove it to use --sandbox=apptainer")
        _ = self._program
        check_agent_folder(agent)
        self._gpu_pool.check(self._settings.gpus)
        apply(self._limits, workers=self._workers)
        check_form(agent, self._settings.allow_hosts)

    def prepare(self, agent: Agent) -> None:
        self.check(agent)
        clean_folders(reporter=self._reporter)  # left by killed jobs on this node
        abilities = self._abilities_of(self.images.trusted(agent, self.images.agent(agent)))
        if abilities.unenforced:
            self._reporter(WarningNote(f"runs have no limit on {listed([*abilities.unenforced])}"))
        if self._settings.network == "full":
            self._reporter(
                WarningNote(
                    "--network=full shares this machine's network with agents: they can reach all that your user can "
                    "reach on the cluster, and each other"
                )
            )

    def describe(self) -> Iterator[tuple[str, str]]:
        try:
            version = self._program.version
        except SandboxError as error:
            if shutil.which("docker") is None:  # with Docker, Apptainer is not needed
                yield "note", str(error)
            return
        files = sorted(self.images.folder.glob("*.sif"))
        size = format_size(sum(file.stat().st_size for file in files))
        yield "ok", f"{version}, {pluralize(len(files), 'image')} ({size}) in {self.images.folder}: --sandbox=apptainer"
        own = [file.stem for file in files if file.name.startswith("mlebench-")]  # others may lack Python
        if not own:
            yield "note", "to test what its containers can do, build an image: mlebench build --sif=DIR dummy"
            return
        try:
            abilities = self._abilities_of(max(own, key=lambda name: name.startswith(ENVIRONMENT)))
        except SandboxError as error:
            yield "problem", str(error)
        else:
            yield "ok", "; ".join(abilities.notes)

    def test_image(self, image: str) -> None:
        found, limits = self._measured(image), apply(self._limits, workers=self._workers)
        with scratch_folder() as scratch:
            disk = Disk(self._program, scratch, limits.disk if found.disk else None)
            command = self._command(image, disk, network="none", gpus=0, group=limits if found.groups else None)
            program = ["/opt/agent/bin/python", "-u", "/opt/mlebench/check.py"]
            self._program.call(*command[1:], *program, timeout=TEST_SECONDS)

    def _measured(self, image: str) -> probe.Abilities:
        """What this image's containers can do, probed once. Raises SandboxError."""
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
        return self._abilities[image]

    def _abilities_of(self, image: str) -> probe.Abilities:
        """What this image's containers can do. Raises SandboxError if that is not enough for an agent."""
        abilities = self._measured(image)
        if abilities.unenforced and not self._settings.allow_unenforced_limits:
            raise SandboxError(
                f"this installation of Apptainer cannot enforce a limit on {listed([*abilities.unenforced])}: "
                f"{'; '.join(dict.fromkeys(abilities.unenforced.values()))}; to run without these limits, "
                "add --allow-unenforced-limits, which the records note"
            )
        if not abilities.writable:
            raise SandboxError("containers of this Apptainer are read-only: install fuse-overlayfs")
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
                raise SandboxError(f"{self._program.version} cannot start a confined container: {error}") from error
        return probe.read(output, network=network == "full")

    def _command(self, image: str, disk: Disk, *, network: str, gpus: int, group: Limits | None = None) -> list[str]:
        """The command that starts a container, without the program to run in it."""
        options = [
            *(*CONFINED, "--pwd", self.images.workdir(image), *disk.options),
            *(() if network == "full" else NO_NETWORK),
            *(("--nv",) if gpus else ()),
        ]
        if group is not None:  # its own control group
            options += ["--pids-limit", str(group.processes)]
            options += ["--memory", str(group.memory), "--memory-swap", str(group.memory)] if group.memory else []
            options += ["--cpus", f"{group.cpus:g}"] if group.cpus else []
        return [self._program.path, "--silent", "exec", *options, str(self.images.file(image))]

    def run(self, task: Task) -> Execution:
        self.check(task.agent)
        task = replace(task, limits=apply(task.limits, workers=self._workers))
        image = self.images.agent(task.agent)
        abilities = self._abilities_of(self.images.trusted(task.agent, image))
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
        task = replace(task, launch=replace(task.launch, environment={**task.launch.environment, **visible}))
        allowed = self._settings.allow_hosts
        wiring = Wiring(task, stack, gpus=gpus, network=network, allow_hosts=allowed, own_network=network != "full")
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
            [*command[:-1], *mounts, command[-1], *program], [] if group else assigned_processors(task), wiring.log
        )
        watched, share = (None, None) if disk.is_limited else (task.limits.disk, self._disk_share)
        written, free = partial(_written, scratch), partial(free_bytes, scratch)
        space = DiskWatcher(written, free, container.kill, limit=watched, share=share)
        memory = MemoryWatcher(task.limits.memory or 0, container, container.kill)
        collect = partial(_collect, task, disk, self.images.file(image), wiring.redactor)
        rlimits = _rlimits(task.limits, grouped=group is not None)
        end, seconds = run_inside(
            wiring,
            container,
            {"limits": rlimits, "user": os.getuid(), "filter": compiled()},
            gpu_advice=_GPU_ADVICE,
            collect=collect,
            watchers=[space, memory] if group is None else [space],
            waiting=container.find_first,
        )
        container.kill()
        collector = collect()
        container.finish_output()
        wiring.log.close()
        if end.exit_code != 0:
            end = replace(end, disk_full=space.full, out_of_memory=memory.full)
        end = end.with_clues(task.limits, tail(task.run_dir / RUN_LOG))
        notes = [*abilities.notes, *wiring.redactor.notes]
        if (shared := memory_limit(os.getpid())) is not None:  # by the harness and the agent
            notes.append(f"the control group of the job limits memory to {format_size(shared)}")
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
            notes=tuple(notes),
            left_out=tuple(collector.left_out),
            left_out_unnamed=collector.unnamed,
            kept=str(scratch) if task.keep else "",
            **wiring.account(),
        )
        return end.execution(seconds, account)


def create(bench: Bench) -> ApptainerSandbox:
    return ApptainerSandbox(bench)


def _mounts(scratch: Path, task: Task, sockets: Path, disk: Disk) -> list[str]:
    """The options that mount the run's data, programs and sockets in its container."""
    if task.anonymous:  # the container's mount table would show the path of the data
        (scratch / "data").mkdir()
        link_tree(task.public, scratch / "data")
    else:  # a link, because `:` and `,` separate the parts of a bind option
        (scratch / "data").symlink_to(task.public.resolve())
    shutil.copyfile(bundled("environment") / "init.py", scratch / "init.py")
    (scratch / "hosts").write_text("127.0.0.1\tlocalhost sandbox\n::1\tlocalhost ip6-localhost\n")
    binds = {
        # Not all of /sys: the user may have write access to the control groups of jobs.
        "/sys/devices/system": "/sys/devices/system:ro",
        f"{scratch}/hosts": "/etc/hosts:ro",
        f"{scratch}/data": f"{DATA}:ro",
        f"{scratch}/init.py": f"{_INIT}:ro",
        str(sockets): f"{_HARNESS}:ro",
        **disk.binds(),
    }
    return [word for source, target in binds.items() for word in ("--bind", f"{source}:{target}")]


def _rlimits(limits: Limits, *, grouped: bool) -> dict[str, int]:
    """The kernel's resource limits for the agent's processes.

    The kernel counts some resources per user, across namespaces. So a run gets only a share, which leaves enough for
    the harness and the user's other runs.
    """
    rlimits = {"RLIMIT_CORE": 0}
    for name in ("RLIMIT_NOFILE", "RLIMIT_SIGPENDING", "RLIMIT_MSGQUEUE"):
        hard = resource.getrlimit(getattr(resource, name))[1]
        if hard != resource.RLIM_INFINITY:
            rlimits[name] = max(hard // _SHARES_PER_USER, min(hard, _MIN_PER_RUN))
    hard = resource.getrlimit(resource.RLIMIT_NPROC)[1]
    processes = limits.processes if hard == resource.RLIM_INFINITY else min(limits.processes, hard // 2)
    rlimits |= {} if grouped else {"RLIMIT_NPROC": processes}
    if limits.disk is not None:  # at once, not only at the watcher's next check
        rlimits["RLIMIT_FSIZE"] = limits.disk
    return rlimits


def _written(scratch: Path) -> int | None:
    """Bytes on the disk below the run's folder; None if a folder cannot be read."""
    total, seen = 0, set()
    waiting = [str(scratch)]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    stats = entry.stat(follow_symlinks=False)
                    if stats.st_nlink > 1 and not entry.is_dir(follow_symlinks=False):
                        if stats.st_ino in seen:
                            continue
                        seen.add(stats.st_ino)
                    total += stats.st_blocks * 512
                    if entry.is_dir(follow_symlinks=False) and entry.path != f"{scratch}/overlay/work":
                        waiting.append(entry.path)
        except FileNotFoundError:
            continue
        except OSError:
            return None
    return total


def _collect(task: Task, disk: Disk, image: Path, redactor: Redactor) -> Collector:
    """Collect the agent's files. The returned collector lists what was left out."""
    limits = task.limits
    size = limits.collect_bytes if limits.disk is None else min(limits.collect_bytes, limits.disk)
    with FilesWriter(task.run_dir) as files:
        collector = Collector(files, size, limits.collect_files, redactor)
        disk.collect(image, collector)
    return collector
