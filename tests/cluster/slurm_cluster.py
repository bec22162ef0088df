"""A temporary Slurm: munge, a controller and nodes on free ports of this machine, in one folder."""

from __future__ import annotations

import getpass
import os
import secrets
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from tests.cluster.ports import free_ports

_SECONDS = 90.0
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch")
_CONFIGURATION = """
ClusterName=mlebench
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=15
SlurmctldPort={port}
StateSaveLocation={folder}/state
SlurmctldPidFile={folder}/slurmctld.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdSpoolDir={folder}/spool/%n
SlurmdPidFile={folder}/%n.pid
SlurmdLogFile={folder}/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SlurmdParameters=config_overrides
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=1
JobAcctGatherParams=OverMemoryKill
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=4000
MpiDefault=none
ReturnToService=2
SlurmdTimeout=5
SlurmctldTimeout=30
KillWait=5
MinJobAge=300
BatchStartTimeout=10
SchedulerParameters=batch_sched_delay=0,sched_interval=1,sched_min_interval=100000,bf_interval=1
MaxJobCount={max_jobs}
{nodes}
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP PriorityTier=1
PartitionName=urgent Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=10
"""


def is_installed(*more: str) -> bool:
    """Return whether Slurm's programs and those in ``more`` are installed."""
    return all(shutil.which(program, path=_path()) for program in (*PROGRAMS, *more))


def _path() -> str:
    return f"{os.environ['PATH']}:/usr/sbin:/sbin"


class SlurmCluster:
    """``environment`` makes Slurm's commands use this cluster."""

    def __init__(self, folder: Path, *, nodes: int = 2, cpus: int = 4, max_jobs: int = 1000) -> None:
        self.folder = folder
        self.nodes = tuple(f"n{number}" for number in range(1, nodes + 1))
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}
        ports = free_ports(nodes + 1)
        lines = [
            f"NodeName={name} NodeHostname={socket.gethostname()} NodeAddr=127.0.0.1 Port={port} CPUs={cpus} "
            "RealMemory=16000 State=UNKNOWN"
            for name, port in zip(self.nodes, ports[1:], strict=True)
        ]
        (folder / "state").mkdir()
        (folder / "spool").mkdir()
        (folder / "slurm.conf").write_text(
            _CONFIGURATION.format(
                host=socket.gethostname(),
                user=getpass.getuser(),
                folder=folder,
                port=ports[0],
                max_jobs=max_jobs,
                nodes="\n".join(lines),
            )
        )
        self.environment: Mapping[str, str] = {"SLURM_CONF": str(folder / "slurm.conf"), "PATH": _path()}

    def start(self) -> None:
        key = self.folder / "munge.key"
        key.write_bytes(secrets.token_bytes(1024))
        key.chmod(0o400)
        self.folder.chmod(0o755)
        self._start(
            "munged",
            *("munged", "--foreground", f"--socket={self.folder}/munge.socket", f"--key-file={key}", "--force"),
            *(f"--pid-file={self.folder}/munged.pid", f"--log-file={self.folder}/munged.log"),
            *(f"--seed-file={self.folder}/munge.seed", "--num-threads=2"),
        )
        self.start_controller()
        for node in self.nodes:
            self.start_node(node)
        self.wait_for(
            "sinfo", "--noheader", "--Node", "--partition=main", "--states=idle", "--format=%N", until=len(self.nodes)
        )

    def start_controller(self, *options: str) -> None:
        self._start("slurmctld", "slurmctld", "-D", "-i", *options)
        self.wait_for("squeue", "--noheader", until=None)

    def start_node(self, name: str) -> None:
        self._start(name, "slurmd", "-D", "-N", name)

    def kill(self, name: str) -> None:
        """Kill the controller, or a node and all its processes, like a power failure."""
        daemon = self._daemons.pop(name)
        victims = [psutil.Process(daemon.pid), *(self.jobs_on(name) if name in self.nodes else ())]
        for process in victims:
            with suppress(psutil.NoSuchProcess):
                for child in process.children(recursive=True):
                    child.kill()
                process.kill()
        daemon.wait()

    def save(self) -> None:
        """Make the controller save its jobs. If killed before, it would forget those that have just started."""
        asked, state = time.time(), self.folder / "state/job_state"
        known = self.call("squeue", "--noheader", "--format=%i").split()
        touched = [id for id in known if self.try_call("scontrol", "update", f"JobId={id}", "Comment=saved")]

        def is_saved() -> bool:
            with suppress(FileNotFoundError):  # not written yet, or being replaced
                return state.stat().st_mtime >= asked
            return False

        if touched:  # otherwise, there is nothing to forget
            self.wait_until(is_saved, f"the controller to write down jobs {touched}")

    def jobs_on(self, node: str) -> list[psutil.Process]:
        """The processes that started this node's jobs. They are not children of its daemon."""
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                environment = process.environ()
                ours = environment.get("SLURM_CONF") == self.environment["SLURM_CONF"]
                if ours and environment.get("SLURMD_NODENAME") == node and (parent := process.parent()) is not None:
                    found.append(parent if parent.name().startswith("slurmstepd") else process)
        return found

    def clear(self) -> None:
        """Clean up after a test: restart daemons, empty the queue, and end the jobs' processes."""
        if "slurmctld" not in self._daemons:
            self.start_controller()
        for node in self.nodes:
            if node not in self._daemons:
                self.start_node(node)
        if left := self.call("squeue", "--noheader", "--format=%i").split():
            self.try_call("scancel", "--signal=KILL", "--full", *left)
            self.try_call("scancel", *left)
            self.wait_for("squeue", "--noheader", until=0)
        self.resume()

    def resume(self) -> None:
        """Resume nodes that a controller drained because they had jobs that it had forgotten."""
        for node in self.nodes:
            self.try_call("scontrol", "update", f"NodeName={node}", "State=RESUME")  # fails if the node is in service

    def wait_for_node(self, name: str) -> None:
        """Wait until a node is back in service."""
        command = ("sinfo", "--noheader", "--partition=main", f"--nodes={name}", "--states=idle,mixed,alloc")
        self.wait_for(*command, "--format=%N", until=1)

    def call(self, *command: str) -> str:
        done = self._run(*command)
        assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}\n{self.logs()}"
        return done.stdout

    def try_call(self, *command: str) -> bool:
        """Return whether a command succeeds. It may fail because its job or node has changed state."""
        return self._run(*command).returncode == 0

    def _run(self, *command: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, **self.environment}
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=_SECONDS)

    def wait_for(self, *command: str, until: int | None) -> None:
        """Wait until a command succeeds and prints ``until`` lines."""
        last = ""

        def is_so() -> bool:
            nonlocal last
            try:
                done = self._run(*command)
            except subprocess.TimeoutExpired:
                last = "it gave no answer"
                return False
            last = done.stdout + done.stderr
            return done.returncode == 0 and until in (None, len(done.stdout.splitlines()))

        lines = "an answer" if until is None else f"{until} lines"
        self.wait_until(is_so, f"{lines} of {' '.join(command)}", lambda: last)

    def wait_until(self, is_so: Callable[[], bool], what: str, last: Callable[[], str] = str) -> None:
        deadline = time.monotonic() + _SECONDS
        while not is_so():
            dead = [name for name, daemon in self._daemons.items() if daemon.poll() is not None]
            assert not dead, f"waited for {what}, and {dead} ended\n{self.logs()}"
            assert time.monotonic() < deadline, f"waited {_SECONDS:g} s for {what}: {last()}\n{self.logs()}"
            time.sleep(0.1)

    def stop(self) -> None:
        while self._daemons:
            _, daemon = self._daemons.popitem()  # the one started last
            daemon.send_signal(signal.SIGTERM)
            try:
                daemon.wait(20)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()

    def logs(self) -> str:
        return "\n".join(f"{path}:\n{path.read_text(errors='replace')[-2000:]}" for path in self.folder.glob("*.log"))

    def _start(self, name: str, *command: str) -> None:
        with (self.folder / f"{name}.out.log").open("ab") as log:
            self._daemons[name] = subprocess.Popen(
                command,
                env={**os.environ, **self.environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )


@contextmanager
def running_cluster(folder: Path, *, nodes: int = 2, cpus: int = 4, max_jobs: int = 1000) -> Iterator[SlurmCluster]:
    cluster = SlurmCluster(folder, nodes=nodes, cpus=cpus, max_jobs=max_jobs)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
