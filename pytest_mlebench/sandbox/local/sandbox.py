"""A sandbox without a container: a process in a private home, for trusted agents.

It keeps an honest agent within its limits and cleans up after it. It does not isolate a hostile one, which runs with
your user's rights: it can read your files, including the answers, and reach the network.
"""

from __future__ import annotations

import json
import os
import secrets
import select
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from pytest_mlebench import defaults
from pytest_mlebench.agents.registry import Agent
from pytest_mlebench.errors import SandboxError, number
from pytest_mlebench.io.files import remove_tree
from pytest_mlebench.io.processes import owned_prefix, signal_name, sigterm_interrupts
from pytest_mlebench.io.progress import Reporter, silent
from pytest_mlebench.io.units import format_size
from pytest_mlebench.records.outcome import Limits, SandboxAccount
from pytest_mlebench.records.record import COLLECTED, RUN_LOG, SUBMISSION
from pytest_mlebench.sandbox import contract
from pytest_mlebench.sandbox.checker import SubmissionChecker
from pytest_mlebench.sandbox.collection import Collector, FilesWriter, SubmissionFile, taking_snapshots
from pytest_mlebench.sandbox.gpus import GpuPool, GpuUsage
from pytest_mlebench.sandbox.limits import RunEnd, apply, assigned_processors, describe
from pytest_mlebench.sandbox.local import supervisor
from pytest_mlebench.sandbox.network.policy import NETWORKS
from pytest_mlebench.sandbox.redaction import LogWriter, Redactor, environment_secrets, tail, validations

USER = "nonroot"
"""Name of the agent's ``HOME``, empty at first. It is next to the agent's other folders, as in a container."""


def create_home(home: Path, task: contract.Task, validation_url: str) -> dict[str, str]:
    """Create the agent's home. Returns the agent's environment variables."""
    folders = {name: home / name for name in (*COLLECTED, "tmp", "data", USER)}
    for folder in folders.values():
        folder.mkdir()
    # The agent gets a separate tree: in the store, the folder next to the public data holds the answers.
    link_tree(task.public, folders["data"])
    for path in (folders["data"], *folders["data"].rglob("*")):
        if path.is_dir():
            path.chmod(0o555)
    shutil.copytree(task.agent.folder, home / "agent")
    for file in contract.scripts():
        shutil.copy(file, home)
    directories = {name: str(folder) for name, folder in folders.items() if name not in ("tmp", USER)}
    text = contract.render_instructions(validate=str(home / contract.VALIDATE), limits=task.limits, **directories)
    (home / contract.INSTRUCTIONS).write_text(text, encoding="utf-8", errors="surrogateescape")
    environment = {
        # The agent's `python` is ours, so a trusted agent can use the harness's packages.
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]),
        "HOME": str(folders[USER]),
        "LANG": "C.UTF-8",
        "PYTHONUNBUFFERED": "1",
        "TMPDIR": str(folders["tmp"]),
        **{f"{name.upper()}_DIR": directory for name, directory in directories.items()},
        "AGENT_DIR": str(home / "agent"),
        "INSTRUCTIONS": str(home / contract.INSTRUCTIONS),
        "COMPETITION_ID": task.competition_id,
        **contract.clock(task.limits),
        "VALIDATION_URL": validation_url,
    }
    return environment | dict(task.launch.environment)


def link_tree(source: Path, target: Path) -> None:
    """Link the files below ``source`` into ``target``: as hard links if possible, else as copies.

    They are created in the order of their names, and with the same times.
    """
    folders = [(source, target)]
    for path in sorted(source.rglob("*")):
        copy = target / path.relative_to(source)
        if path.is_dir():
            copy.mkdir(parents=True, exist_ok=True)
            folders.append((path, copy))
            continue
        try:
            os.link(path.resolve(), copy)
        except OSError:  # another file system, a limit on links, or files of another owner
            shutil.copyfile(path, copy)
            _copy_times(path, copy)
    for folder, copy in folders:
        _copy_times(folder, copy)


def _copy_times(source: Path, target: Path) -> None:
    status = source.stat()
    os.utime(target, ns=(status.st_mtime_ns, status.st_mtime_ns))


_BLOCK = 1 << 16
_STOP_SECONDS = 0.2
_NOT_ENFORCED = (
    "not enforced by the local sandbox: network, number of processes",
    "enforced for each file or process only: disk, processors",
)
_NOT_HIDDEN = "the local sandbox hides the competition's name only from an agent that does not look around the machine"


class LocalSandbox:
    """Runs an agent's start script as a process group on this machine.

    ``gpu_ids`` restricts which GPUs a run may use; waiting for one is reported to ``reporter``.
    ``workers`` runs share the machine; ``limits`` are those that runs will request, checked up front.
    ``network`` exists only to reject ``none``, which nothing here would enforce.

    >>> LocalSandbox().name
    'local'
    """

    name = "local"

    def __init__(
        self,
        *,
        gpu_ids: Sequence[str] = (),
        reporter: Reporter = silent,
        workers: int = 1,
        limits: Limits | None = None,
        network: str | None = None,
    ) -> None:
        if network not in (None, *NETWORKS):
            raise SandboxError(f"network policy {network!r} must be one of {', '.join(NETWORKS)}")
        if network == "none":
            raise SandboxError("the local sandbox cannot keep an agent from the network: use --sandbox=docker")
        number(workers, "workers", least=1)
        self._workers = workers
        self._limits = limits or Limits()
        self._gpu_pool = GpuPool(gpu_ids)
        self._reporter = reporter

    def check(self, agent: Agent) -> None:
        """Check for Linux and bash, for links out of the agent's folder, and for impossible limits."""
        if sys.platform != "linux":
            raise SandboxError("the local sandbox needs Linux; use --sandbox=docker")
        if shutil.which("bash") is None:
            raise SandboxError("the local sandbox needs bash")
        contract.check_agent_folder(agent)
        apply(self._limits, workers=self._workers)

    def prepare(self, agent: Agent) -> None:
        """Do nothing: there is no image to build."""

    def run(self, task: contract.Task) -> contract.Execution:
        self.check(task.agent)
        task = replace(task, limits=apply(task.limits, workers=self._workers))
        try:
            with task.gateway.open() if task.gateway is not None else nullcontext(task.launch) as launch:
                return self._run(replace(task, launch=launch))
        except OSError as error:
            raise SandboxError(f"the local sandbox failed: {error}") from error

    def _run(self, task: contract.Task) -> contract.Execution:
        task.run_dir.mkdir(parents=True, exist_ok=True)
        # In the run directory, which is usually on the same file system as the data, as hard links require.
        parent = task.run_dir.parent if task.anonymous else task.run_dir
        home = Path(tempfile.mkdtemp(prefix=owned_prefix(contract.LOCAL_HOME), dir=parent)).resolve()
        redactor = Redactor({*task.launch.secrets, *environment_secrets()})
        limits = task.limits
        size = limits.collect_bytes if limits.disk is None else min(limits.collect_bytes, limits.disk)
        files = FilesWriter(task.run_dir)
        collector = Collector(files, size, limits.collect_files, redactor)
        try:
            with (
                sigterm_interrupts(),
                self._gpu_pool.lease(task.limits.gpus, self._reporter) as gpus,
                SubmissionChecker.of(task) as checker,
                nullcontext() if task.steps is None else task.steps.open() as steps,
            ):
                task = task if steps is None else contract.with_steps(task, steps)
                environment = create_home(home, task, checker.url)
                # CUDA respects this variable, but nothing stops an agent that ignores it.
                environment["CUDA_VISIBLE_DEVICES"] = ",".join(gpu.uuid for gpu in gpus)
                try:
                    source = SubmissionFile(home / "submission")
                    with taking_snapshots(task.snapshots, source, redactor), GpuUsage(gpus) as usage:
                        result = _supervise(home, task, environment, redactor)
                finally:
                    with files:
                        for name in COLLECTED:
                            collector.collect(home / name, first=Path(SUBMISSION).name)
            account = SandboxAccount(
                name=self.name,
                network="not enforced",
                gpus=tuple(gpu.name for gpu in gpus),
                gpu_usage=usage.summary,
                limits=describe(task.limits),
                notes=(*_NOT_ENFORCED, *([_NOT_HIDDEN] if task.anonymous else []), *redactor.notes),
                left_out=tuple(collector.left_out),
                left_out_unnamed=collector.unnamed,
                left_behind=0 if result["reason"] else result["left_behind"],
                validations=validations(checker.history, redactor),
                kept=str(home) if task.keep else "",
            )
            return _end(result, task).execution(result["seconds"], account)
        finally:
            if not task.keep:
                remove_tree(home)


def _supervise(home: Path, task: contract.Task, environment: dict[str, str], redactor: Redactor) -> dict[str, Any]:
    limits = task.limits
    start = home / "agent" / task.agent.start.relative_to(task.agent.folder)
    reader, writer = os.pipe()
    order = {
        "command": ["bash", str(start), *task.launch.arguments],
        "home": str(home),
        "environment": environment,
        "output": writer,
        "time_limit": limits.time_limit,
        "grace": task.grace,
        "memory_group": f"{owned_prefix(contract.MEMORY_GROUP)}{secrets.token_hex(4)}",
        "cpus": assigned_processors(task),
        "memory": limits.memory,
        "rlimits": {
            "RLIMIT_DATA": limits.memory,
            "RLIMIT_FSIZE": limits.disk,
            "RLIMIT_CPU": limits.cpus * limits.time_limit + 1 if limits.cpus else None,
            "RLIMIT_CORE": 0,
        },
    }
    log = LogWriter(task.run_dir / RUN_LOG, limits.log_bytes, redactor)
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", supervisor.__file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        pass_fds=[writer],
        env={},  # the harness's environment contains keys
        start_new_session=True,  # the harness handles Ctrl-C
    )
    os.close(writer)
    assert process.stdin is not None and process.stdout is not None
    try:
        process.stdin.write(json.dumps(order).encode() + b"\n")
        process.stdin.flush()
        for block in _blocks(reader, task, process):
            log.write(block)
        answer = process.stdout.readline()
    except BaseException:
        _ask_to_stop(process)
        with suppress(subprocess.TimeoutExpired):
            process.wait(defaults.GRACE_SECONDS + 5)
        raise
    finally:
        with suppress(OSError):  # closing retries an unfinished write
            process.stdin.close()
        process.stdout.close()
        process.wait()
        os.close(reader)
        log.close()
    if not answer:
        supervisor.clean_up(order)
        raise SandboxError(f"the agent's supervisor ended with status {process.returncode} and no result")
    result: dict[str, Any] = json.loads(answer)
    if "error" in result:
        raise SandboxError(f"the agent's start script could not be started: {result['error']}")
    return result


def _ask_to_stop(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    with suppress(OSError):
        process.stdin.write(b"stop\n")
        process.stdin.flush()


def _blocks(reader: int, task: contract.Task, process: subprocess.Popen[bytes]) -> Iterator[bytes]:
    """Yield the agent's output until it ends. If the task is stopped, tell the supervisor to end the agent."""
    asked = task.steps is None
    while True:
        if not asked:
            ready, _, _ = select.select([reader], [], [], _STOP_SECONDS)
            if task.is_stopped:
                asked = True
                _ask_to_stop(process)
            if not ready:
                continue
        if not (block := os.read(reader, _BLOCK)):
            return
        yield block


def _end(result: dict[str, Any], task: contract.Task) -> RunEnd:
    code, reason, limits = result["exit_code"], result["reason"], task.limits
    too_much = f"its processes used more than {format_size(limits.memory or 0)}"
    return RunEnd(
        exit_code=code if code >= 0 else None,
        signal=signal_name(-code) if code < 0 else None,
        oom_kills=result["oom_kills"],
        time_limit=limits.time_limit if reason == "timed out" else None,
        out_of_memory=too_much if reason == "out of memory" else "",
    ).with_clues(limits, tail(task.run_dir / RUN_LOG), memory=True)
