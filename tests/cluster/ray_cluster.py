"""A temporary Ray cluster, whose nodes run on free ports of this machine."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path

import psutil

from tests.cluster.ports import free_ports

_SECONDS = 90.0
_MEMORY = 8 * 10**9
_OBJECTS = 80 * 10**6


def is_installed() -> bool:
    return find_spec("ray") is not None


class RayCluster:
    """``environment`` makes programs use this cluster. If there are several nodes, the first one executes no runs."""

    def __init__(
        self, folder: Path, *, nodes: int = 3, cpus: int = 2, environment: Mapping[str, str] | None = None
    ) -> None:
        self.folder, self._cpus = folder, cpus
        self.nodes = tuple(f"r{number}" for number in range(1, nodes + 1))
        (self._port,) = free_ports(1)
        self.address = f"127.0.0.1:{self._port}"
        self.environment = {
            "RAY_ADDRESS": self.address,
            "RAY_AUTH_MODE": "disabled",  # even if the user has a token for another cluster
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_health_check_initial_delay_ms": "0",
            "RAY_health_check_period_ms": "1000",
            "RAY_health_check_failure_threshold": "3",
            **(environment or {}),
        }
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}

    def start(self) -> None:
        for node in self.nodes:  # if started concurrently, they take each other's ports
            self.start_node(node)

    def start_node(self, name: str) -> None:
        head = (*("--head", f"--port={self._port}", "--include-dashboard=false", f"--temp-dir={self.folder}"),)
        place = head if name == self.nodes[0] else (f"--address={self.address}",)
        with self._log(name).open("wb") as log:
            self._daemons[name] = subprocess.Popen(
                [
                    *(sys.executable, "-m", "ray.scripts.scripts", "start", "--block", "--node-ip-address=127.0.0.1"),
                    *("--min-worker-port=0", "--max-worker-port=0", "--dashboard-agent-listen-port=0"),
                    "--include-log-monitor=false",  # it uses a tenth of a CPU
                    *(
                        f"--num-cpus={0 if name == self.nodes[0] and len(self.nodes) > 1 else self._cpus}",
                        f"--memory={_MEMORY}",
                        f"--object-store-memory={_OBJECTS}",
                        *place,
                    ),
                ],
                env={**os.environ, **self.environment, "RAY_ADDRESS": ""},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._wait_for("Ray runtime started", name)

    def kill(self, name: str) -> None:
        """Kill a node and all its processes, like a power failure."""
        daemon = self._daemons.pop(name)
        processes = [psutil.Process(daemon.pid)]
        processes += processes[0].children(recursive=True)
        for process in processes:
            with suppress(psutil.NoSuchProcess):
                for child in process.children(recursive=True):
                    child.kill()
                process.kill()
        daemon.wait()

    def node_of(self, pid: int) -> str:
        """The node on which a process runs."""
        above = {parent.pid for parent in psutil.Process(pid).parents()}
        return next(name for name, daemon in self._daemons.items() if daemon.pid in above)

    def stop(self) -> None:
        for name in reversed(self.nodes):
            if name in self._daemons:
                with suppress(psutil.NoSuchProcess):
                    self.kill(name)

    def _log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def _wait_for(self, text: str, node: str) -> None:
        deadline = time.monotonic() + _SECONDS
        while text not in (said := self._log(node).read_text(errors="replace")):
            assert time.monotonic() < deadline and self._daemons[node].poll() is None, said
            time.sleep(0.1)


@contextmanager
def running_ray(*, nodes: int = 3, cpus: int = 2, environment: Mapping[str, str] | None = None) -> Iterator[RayCluster]:
    with tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        cluster = RayCluster(Path(folder), nodes=nodes, cpus=cpus, environment=environment)
        try:
            cluster.start()
            yield cluster
        finally:
            cluster.stop()
