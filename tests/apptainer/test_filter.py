"""The system call filter of the first process, and its effect on a process that applies it."""

from __future__ import annotations

import errno
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_mlebench.extras.apptainer.filter import compiled
from pytest_mlebench.io.files import bundled

APPLY = """
import base64, sys
sys.path.insert(0, sys.argv[1])
import init
init.apply(base64.b64decode(sys.argv[2]))
"""
LIBC = "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\n"


def filtered(code: str) -> str:
    """Return the output of a process that has applied the filter."""
    if not compiled():
        pytest.skip("there is no libseccomp")
    folder = str(Path(bundled("environment")))
    command = [sys.executable, "-IB", "-c", APPLY + code, folder, compiled()]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.strip()


def test_programs_run_with_threads_and_children() -> None:
    assert filtered(
        "import subprocess, threading\n"
        "threads = [threading.Thread(target=print, args=('thread',)) for _ in range(3)]\n"
        "[t.start() for t in threads]; [t.join() for t in threads]\n"
        "print(subprocess.run(['echo', 'child'], capture_output=True, text=True).stdout)"
    ).split() == [*["thread"] * 3, "child"]


@pytest.mark.parametrize(
    "call",
    [
        "libc.sched_setaffinity(0, 8, b'1' * 8)",
        "libc.unshare(0x10000000)",
        "libc.chroot(b'/')",
        "libc.socket(40, 1, 0)",
    ],
)
def test_system_calls_that_agents_do_not_need_are_blocked(call: str) -> None:
    assert filtered(f"{LIBC}{call}\nprint(ctypes.get_errno())") == str(errno.EPERM)


def test_newer_system_calls_with_older_equivalents_are_not_implemented() -> None:
    clone3 = 435
    assert filtered(f"{LIBC}libc.syscall({clone3}, 0, 0)\nprint(ctypes.get_errno())") == str(errno.ENOSYS)
