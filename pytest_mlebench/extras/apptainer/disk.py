"""Where a container writes: a folder of the run, or, where its space is limited, a file system in a file of that size.

The kernel keeps the limit of the latter, as nothing else of the machine's disk can be written to: whatever an agent
does, the file does not grow over its size. What is left in it is taken out by a container that sees nothing else.
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
from pytest_mlebench.io.files import open_up, remove_tree
from pytest_mlebench.io.processes import owned
from pytest_mlebench.records.record import COLLECTED, SUBMISSION
from pytest_mlebench.sandbox.collection import Collector, collect_archive
from pytest_mlebench.sandbox.contract import SOCKETS
from pytest_mlebench.sandbox.wiring import HOME

CONFINED = ("--containall", "--no-home", "--no-init", "--no-eval", "--userns", "--hostname", "sandbox")
NO_NETWORK = ("--net", "--network", "none")
_MOUNTS = "sys,bind-paths,hostfs"
"""What installations mount that no agent needs."""
_METADATA_SHARE, _METADATA_BYTES = 0.06, 8 << 20
"""What a file system needs for itself."""
_MIB = 1 << 20
_LEAST_MIB = 64
"""Apptainer makes no smaller ones."""
_BLOCK = 1 << 20
_SECONDS = 900.0
"""That taking out what an agent left may take."""
_INSIDE = "/mnt"
_EMPTY = f"""
cd {_INSIDE}/home || exit
chmod -R u+rwX {" ".join(COLLECTED)}
exec tar -cf - --anchored {SUBMISSION} --exclude={SUBMISSION} --no-anchored --exclude='.wh.*' {" ".join(COLLECTED)}
"""
"""The submission comes first, whatever else there is. Files that begin with ``.wh.`` are the overlay's notes."""


class Disk:
    """What one container writes, below ``scratch`` on this machine; ``limit`` in bytes, or None for a folder.

    ``options`` are those of the command that starts the container. Raises SandboxError where no file system of that
    size can be made.
    """

    def __init__(self, program: InstalledProgram, scratch: Path, limit: int | None) -> None:
        self._program, self._scratch = program, scratch
        self._image = scratch / "disk.img" if limit is not None else None
        if limit is not None:
            size = max(_LEAST_MIB, math.ceil((limit * (1 + _METADATA_SHARE) + _METADATA_BYTES) / _MIB))
            program.call("overlay", "create", "--sparse", "--size", str(size), str(self._image))
            # Temporary files go there too.
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
        """The folders that are bound into the container, with where; makes them."""
        if self._image is not None:
            return {}
        for name in COLLECTED:
            (self._scratch / name).mkdir()
        return {f"{self._scratch}/{name}": f"{HOME}/{name}" for name in COLLECTED}

    def collect(self, image: Path, collector: Collector) -> None:
        """Take out what the agent left, when its container has ended; ``image`` is the one that it ran in."""
        if self._image is None:
            for name in COLLECTED:
                open_up(self._scratch / name)
                collector.collect(self._scratch / name, first="submission.csv")
            return
        bound = ["--no-mount", f"{_MOUNTS},tmp", "--bind", f"{self._image}:{_INSIDE}:image-src=/upper"]
        command = ["--silent", "exec", *CONFINED, *NO_NETWORK, *bound, str(image), "/bin/sh", "-c", _EMPTY]
        with _output([self._program.path, *command]) as chunks:
            collect_archive(chunks, COLLECTED, collector)


@contextmanager
def scratch_folder(*, keep: bool = False) -> Iterator[Path]:
    """A folder of a run, or a build, on this machine's disk; its name says whose it is, for ``mlebench clean``."""
    folder = Path(tempfile.mkdtemp(prefix="mlebench-kept-" if keep else owned(SOCKETS)))
    try:
        yield folder
    finally:
        if not keep:
            remove_tree(folder)


@contextmanager
def _output(command: Sequence[str]) -> Iterator[Iterator[bytes]]:
    """What a command prints, which need not be read to its end; it is ended after a time. Raises SandboxError."""
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment(),
        )
    except OSError as error:
        raise SandboxError(f"what the agent left cannot be taken out: {error}") from error
    timer = threading.Timer(_SECONDS, process.terminate)
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
