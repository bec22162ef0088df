"""Locks of the data store: holders, waiting, and the end of a holder."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from pytest_mlebench.io import locks
from pytest_mlebench.io.locks import LockHeld, hold_any_lock, hold_lock, lock_holder
from pytest_mlebench.io.progress import Event, Step, silent

WITHOUT_FLOCK = f"""
import errno, fcntl
def refuse(*arguments):
    raise OSError(errno.{errno.errorcode[errno.ENOSYS]}, "no flock here")
fcntl.flock = refuse
"""


def start_holder(path: Path, before: str = "") -> subprocess.Popen[str]:
    """A process that holds the lock until its standard input ends."""
    program = (
        f"{before}\n"
        "import sys, pathlib\n"
        "from pytest_mlebench.io.locks import hold_lock\n"
        f"with hold_lock(pathlib.Path({str(path)!r}), 'prepares', 'toy'):\n"
        "    print('held', flush=True)\n"
        "    sys.stdin.read()\n"
    )
    process = subprocess.Popen([sys.executable, "-c", program], stdin=-1, stdout=-1, text=True)
    assert process.stdout is not None and process.stdout.readline() == "held\n"
    return process


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / ".lock"


def test_the_holder_is_reported_while_waiting(path: Path) -> None:
    process = start_holder(path)
    who = f"process {process.pid} on host {socket.gethostname()}, which prepares toy"
    assert lock_holder(path) == who
    with pytest.raises(LockHeld, match=who), hold_lock(path, "removes", "toy"):
        pass
    events: list[Event] = []
    threading.Timer(0.5, process.communicate).start()
    with hold_lock(path, "prepares", "toy", events.append):
        assert events == [Step("toy", f"waiting for {who}")]
        assert lock_holder(path) == f"process {os.getpid()} on host {socket.gethostname()}, which prepares toy"
    assert lock_holder(path) is None


def test_a_link_in_place_of_a_lock_is_neither_read_nor_written(path: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text('{"pid": 1, "host": "x", "doing": "secret"}')
    before = victim.read_bytes()
    with hold_lock(path, "removes", "toy"):
        path.unlink()
        path.symlink_to(victim)
        assert "secret" not in (lock_holder(path) or "")
    assert victim.read_bytes() == before
    with pytest.raises(OSError, match="symbolic links"), hold_lock(path, "removes", "toy"):
        pass
    assert victim.read_bytes() == before


@pytest.mark.parametrize("before", ["", WITHOUT_FLOCK], ids=["flock", "no flock"])
def test_a_killed_holder_releases_its_lock(path: Path, before: str, monkeypatch: pytest.MonkeyPatch) -> None:
    process = start_holder(path, before)
    if before:
        monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(LockHeld), hold_lock(path, "prepares", "toy"):
        pass
    process.send_signal(signal.SIGKILL)
    process.communicate()
    waited: list[Event] = []
    begin = time.monotonic()
    with hold_lock(path, "prepares", "toy", waited.append):
        assert time.monotonic() - begin < 5
    assert lock_holder(path) is None


@pytest.mark.full
def test_the_lock_of_an_unreachable_host_expires_with_its_lease(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fcntl, "flock", refuse)
    monkeypatch.setattr(locks, "LEASE_SECONDS", 2.0)
    elsewhere = f"import socket; socket.gethostname = lambda: 'elsewhere'\n{WITHOUT_FLOCK}"
    elsewhere += "from pytest_mlebench.io import locks; locks.LEASE_SECONDS = 2.0"
    process = start_holder(path, elsewhere)
    with pytest.raises(LockHeld, match=f"process {process.pid} on host elsewhere"), hold_lock(path, "prepares", "toy"):
        pass
    time.sleep(3)  # the holder renews its lease
    with pytest.raises(LockHeld), hold_lock(path, "prepares", "toy"):
        pass
    process.send_signal(signal.SIGKILL)
    process.communicate()
    begin = time.monotonic()
    with hold_lock(path, "prepares", "toy", silent):
        assert 1 < time.monotonic() - begin < 20


def test_each_of_several_locks_has_one_holder(tmp_path: Path) -> None:
    paths = [tmp_path / "0", tmp_path / "1"]
    events: list[Event] = []
    with hold_any_lock(paths, "downloads", "a", events.append), hold_any_lock(paths, "downloads", "b", events.append):
        assert events == []
        released = threading.Event()
        entered = threading.Event()

        def third() -> None:
            with hold_any_lock(paths, "downloads", "c", events.append):
                assert released.is_set()
                entered.set()

        thread = threading.Thread(target=third)
        thread.start()
        time.sleep(0.5)
        assert events == [Step("c", "waiting for one of 2 other processes to end")] and not entered.is_set()
        released.set()
    thread.join(10)
    assert entered.is_set()


def refuse(*arguments: object) -> None:
    raise OSError(errno.ENOSYS, "no flock here")
