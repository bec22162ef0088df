"""A process may choose any bytes as its name, which the kernel shows among its facts about the process."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pytest_mlebench.extras.apptainer.container import _pid_inside
from pytest_mlebench.grading.process import _memory
from pytest_mlebench.io.processes import start_time
from pytest_mlebench.sandbox.local.supervisor import _memory_in_use

pytestmark = pytest.mark.parametrize("name", [b"\xff) Z (", b"\rRssAnon:", b"\rNSpid: 1 2"], ids=repr)


@contextmanager
def sleeping(name: bytes, folder: Path) -> Iterator[int]:
    """Run a process with this name. Yields its id."""
    program = folder / os.fsdecode(name)
    shutil.copy(shutil.which("sleep") or "", program)
    with subprocess.Popen([program, "600"]) as process:
        try:
            yield process.pid
        finally:
            process.kill()


def test_its_start_is_known(name: bytes, tmp_path: Path) -> None:
    with sleeping(name, tmp_path) as pid:
        assert int(start_time(pid)) > 0


def test_its_memory_is_measured(name: bytes, tmp_path: Path) -> None:
    with sleeping(name, tmp_path) as pid:
        assert _memory(pid) > 0
        assert _memory_in_use() > 0


def test_its_number_in_a_namespace_is_known(name: bytes, tmp_path: Path) -> None:
    with sleeping(name, tmp_path) as pid:
        assert _pid_inside(pid) is None
