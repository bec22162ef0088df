"""The self-test of an image, ``environment/check.py``, run in a container as confined as an agent's."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from contextlib import ExitStack

from pytest_mlebench.errors import SandboxError
from pytest_mlebench.io.processes import owner_labels, sigterm_interrupts
from pytest_mlebench.io.progress import Note, Reporter
from pytest_mlebench.sandbox.docker.container import Container, configuration_of_test
from pytest_mlebench.sandbox.docker.engine import Engine
from pytest_mlebench.sandbox.gpus import Gpu

PROGRAM = ("/opt/agent/bin/python", "-u", "/opt/mlebench/check.py")


def run_self_test(
    engine: Engine,
    image: str,
    *arguments: str,
    gpus: Sequence[Gpu] = (),
    runtime: str | None = None,
    reporter: Reporter,
) -> None:
    """Report each line of the test; raises SandboxError that names what failed."""
    container = Container(engine, f"mlebench-check-{secrets.token_hex(6)}")
    lines = _Lines(reporter)
    with ExitStack() as stack:
        stack.enter_context(sigterm_interrupts())
        stack.callback(container.remove)
        stack.callback(container.close)
        settings = configuration_of_test([*PROGRAM, *arguments], gpus=gpus, runtime=runtime)
        container.create(image, settings, owner_labels(), quota=None)
        container.start(lines)
        status = container.wait()
        container.finish_output()
    if status:
        raise SandboxError(f"image {image}: {lines.last or f'its self-test ends with status {status}, and no word'}")
    reporter(Note(lines.last))


class _Lines:
    """Takes output as it comes, and reports whole lines; the last one is kept back, as it may be the verdict."""

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter
        self._rest = b""
        self.last = ""

    def write(self, block: bytes) -> None:
        for line in self._whole(block):
            if self.last:
                self._reporter(Note(self.last))
            self.last = line

    def _whole(self, block: bytes) -> Iterator[str]:
        *whole, self._rest = (self._rest + block).split(b"\n")
        yield from (line.decode(errors="replace").rstrip() for line in whole if line.strip())
