"""A separate Docker engine for a test, which may be killed without affecting other tests."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class Engine:
    """``dockerd`` with separate folders and without a network."""

    def __init__(self, folder: Path) -> None:
        self.host = f"unix://{folder}/docker.sock"
        self._folder = folder
        self._daemon: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        deadline = time.monotonic() + 240
        while not self._try_to_start():
            assert time.monotonic() < deadline, (self._folder / "log").read_text()[-3000:]

    def _try_to_start(self) -> bool:
        """Whether the engine started; it may fail after its predecessor was killed."""
        folder = self._folder
        (folder / "docker.pid").unlink(missing_ok=True)
        with (folder / "log").open("ab") as log:
            self._daemon = subprocess.Popen(
                [
                    *("unshare", "--net"),  # with --bridge=none, dockerd removes the bridge of the other engine
                    *("dockerd", "-H", self.host, "--data-root", folder / "data", "--exec-root", folder / "exec"),
                    *("--pidfile", folder / "docker.pid", "--bridge=none", "--iptables=false", "--ip-masq=false"),
                ],
                cwd="/",
                env={"PATH": os.environ["PATH"]},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        while self.docker("version", check=False).returncode:
            if self._daemon.poll() is not None:
                self._end_containerd()
                return False
            time.sleep(0.2)
        return True

    def kill(self) -> None:
        assert self._daemon is not None
        self._daemon.kill()
        self._daemon.wait()

    def docker(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(["docker", "-H", self.host, *arguments], capture_output=True, check=check)

    def load(self, *images: str) -> None:
        """Copy images from the default engine."""
        with subprocess.Popen(["docker", "save", *images], stdout=subprocess.PIPE) as saved:
            subprocess.run(["docker", "-H", self.host, "load"], stdin=saved.stdout, check=True, capture_output=True)

    def stop(self) -> None:
        if self._daemon is not None:
            self._daemon.terminate()
            self._daemon.wait(60)
        self._end_containerd()

    def _end_containerd(self) -> None:
        containerd = self._folder / "exec/containerd/containerd.pid"
        if containerd.exists():  # a killed daemon leaves it running
            try:
                os.kill(int(containerd.read_text()), signal.SIGKILL)
            except ProcessLookupError:
                return
            time.sleep(1)


@contextmanager
def own_engine(folder: Path) -> Iterator[Engine]:
    folder.mkdir()
    engine = Engine(folder)
    try:
        engine.start()
        yield engine
    finally:
        engine.stop()
        for line in reversed(Path("/proc/mounts").read_text().splitlines()):
            if line.split()[1].startswith(str(folder)):
                subprocess.run(["umount", "--lazy", line.split()[1]], check=False)
        shutil.rmtree(folder, ignore_errors=True)
