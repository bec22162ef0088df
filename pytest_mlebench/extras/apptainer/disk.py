"""Where a container writes: to a folder of the run or, if space is limited, to a file system in a file of that size.

The kernel enforces the size of such a file, and the container can write nowhere else on the machine's disk. A second
container, which sees nothing else, collects the agent's files from it.
"""

from __future__ import annotations

import math
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pytest_mlebench.errors import SandboxError
from pytest_mlebench.extras.apptainer.program import InstalledProgram, environment
from pytest_mlebench.io.files import make_readable, remove_tree
from pytest_mlebench.io.processes import owned_prefix
from pytest_mlebench.records.record import COLLECTED, SUBMISSION
from pytest_mlebench.sandbox.collection import Collector, collect_archive
from pytest_mlebench.sandbox.contract import SOCKETS
from pytest_mlebench.sandbox.wiring import HOME

CONFINED = ("--containall", "--no-home", "--no-init", "--no-eval", "--userns", "--hostname", "sandbox")
NO_NETWORK = ("--net", "--network", "none")
_MOUNTS = "sys,bind-paths,hostfs"
"""Mounts that installations add and no agent needs."""
_METADATA_SHARE, _METADATA_BYTES = 0.06, 8 << 20
"""Space for the file system's metadata: a share of the limit, and bytes."""
_MIB = 1 << 20
_MIN_MIB = 64
"""Size of the smallest file system that Apptainer creates."""
_BLOCK = 1 << 20
_COLLECT_SECONDS = 900.0
"""Timeout for collecting an agent's files."""
_INSIDE = "/mnt"
_ARCHIVE = f"""
cd {_INSIDE}/home || exit
chmod -R u+rwX {" ".join(COLLECTED)}
exec tar -cf - --anchored {SUBMISSION} --exclude={SUBMISSION} --no-anchored --exclude='.wh.*' {" ".join(COLLECTED)}
"""
"""The submission comes first, however many other files there are. The prefix ``.wh.`` marks the overlay's whiteouts."""


class Disk:
    """The writable storage of one container, below ``scratch``; ``limit`` is in bytes, or None for a folder.

    ``options`` are for the command that starts the container. Raises SandboxError if no file system of that size can be
    created.
    """

    def __init__(self, program: InstalledProgram, scratch: Path, limit: int | None) -> None:
        self._program, self._scratch = program, scratch
        self._image = scratch / "disk.img" if limit is not None else None
        if limit is not None:
            size = max(_MIN_MIB, math.ceil((limit * (1 + _METADATA_SHARE) + _METADATA_BYTES) / _MIB))
            program.call("overlay", "create", "--sparse", "--size", str(size), str(self._image))
            # Temporary files go to the image too.
            self.options = ["--no-mount", f"{_MOUNTS},tmp", "--overlay", str(self._image)]
            return
        for name in ("overlay/upper", "overlay/work", "tmp"):
            (scratch / name).mkdir(parents=True)
        overlay = ["--overlay", str(scratch / "overlay"), "--workdir", str(scratch / "tmp")]
        self.options = ["--no-mount", _MOUNTS, *overlay]

    @property
    def is_limited(self) -> bool:
        return self._image is not None

    def binds(self) -> dict[str, str]:
        """Create the folders to mount in the container; returns their targets by source path."""
        if self._image is not None:
            return {}
        for name in COLLECTED:
            (self._scratch / name).mkdir()
        return {f"{self._scratch}/{name}": f"{HOME}/{name}" for name in COLLECTED}

    def collect(self, image: Path, collector: Collector) -> None:
        """Collect the agent's files after its container has ended. ``image`` is the image that it ran in."""
        if self._image is None:
            for name in COLLECTED:
                make_readable(self._scratch / name)
                collector.collect(self._scratch / name, first="submission.csv")
            return
        bound = ["--no-mount", f"{_MOUNTS},tmp", "--bind", f"{self._image}:{_INSIDE}:image-src=/upper"]
        command = ["--silent", "exec", *CONFINED, *NO_NETWORK, *bound, str(image), "/bin/sh", "-c", _ARCHIVE]
        with _output([self._program.path, *command]) as chunks:
            collect_archive(chunks, COLLECTED, collector)


@contextmanager
def scratch_folder(*, keep: bool = False) -> Iterator[Path]:
    """A run's or build's temporary folder on this machine's disk. ``mlebench clean`` reads the owner from its name."""
    folder = Path(tempfile.mkdtemp(prefix="mlebench-kept-" if keep else owned_prefix(SOCKETS)))
    try:
        yield folder
    finally:
        if not keep:
            remove_tree(folder)


@contextmanager
def _output(command: Sequence[str]) -> Iterator[Iterator[bytes]]:
    """The output of a command, which is terminated afterwards or at the timeout. Raises SandboxError."""
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment(),
        )
    except OSError as error:
        raise SandboxError(f"the agent's files cannot be collected: {error}") from error
    timer = threading.Timer(_COLLECT_SECONDS, process.terminate)
    timer.start()
    assert process.stdout is not None
    stream = process.stdout
    try:
        yield iter(lambda: stream.read(_BLOCK), b"")
    finally:
        timer.cancel()
        process.terminate()
        stream.close()
        process.wait()
