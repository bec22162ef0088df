"""Attacks on another run on the same machine: resources that one container takes must not affect the other.

Each test has two concurrent real containers with the same data and image.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import docker
import pytest

from pytest_mlebench.errors import SandboxError
from tests.sandbox.scripted import ENGINE, MB, Runner, kill_containers

pytestmark = [pytest.mark.docker, pytest.mark.serial]

LIBRARY = """
import array, ctypes, ctypes.util, errno, fcntl, os, pty, signal, socket, struct, sys, time
libc = ctypes.CDLL(None, use_errno=True)
def attempt(what, call, *arguments):
    try:
        print(what, 'done', call(*arguments), flush=True)
    except OSError as error:
        print(what, errno.errorcode[error.errno], flush=True)
def call(number, *arguments):
    result = libc.syscall(number, *arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), 'refused')
    return result
def as_many(make, most):
    made = []
    try:
        while len(made) < most:
            made.append(make())
    except OSError:
        pass
    return made
def hold():
    print('ready', flush=True)
    time.sleep(600)
"""
Neighbours = Callable[..., str]


@pytest.fixture
def neighbours(attack: Runner) -> Iterator[Neighbours]:
    """Runs a program that holds a resource, then another one concurrently; returns the output of the other."""
    threads = []

    def run(holder: str, other: str, **options: object) -> str:
        holding = attack.task(_program(holder), **{"memory": 512 * MB, **options})  # type: ignore[arg-type]

        def hold() -> None:
            with suppress(SandboxError):  # killed below
                attack.sandbox.run(holding)

        threads.append(threading.Thread(target=hold))
        threads[-1].start()
        log = holding.run_dir / "run.log"
        deadline = time.monotonic() + 120
        while not (log.exists() and "ready" in log.read_text()):
            assert time.monotonic() < deadline and threads[-1].is_alive(), log.read_text() if log.exists() else "no log"
            time.sleep(0.05)
        return attack(_program(other)).log

    yield run
    kill_containers()
    for thread in threads:
        thread.join()


def _program(text: str) -> str:
    return f"cat > x.py <<'EOF'\n{LIBRARY}\n{text}\nEOF\nexec python3 x.py"


FILES = (
    "/home/data/sample_submission.csv",
    "/home/data/images/1.txt",
    "/home/data",
    "/home/data/images",
    "/opt/mlebench/init.py",
    "/home/agent/start.sh",
    "/bin/bash",
    "/etc/passwd",
    "/etc/hosts",
    "/etc/resolv.conf",
    "/dev/null",
    "/proc/version",
    "/sys/kernel/mm",
)
LOCKS = {
    "a lock on bytes": (
        "fcntl.fcntl(file, fcntl.F_SETLK, struct.pack('hhqqi', fcntl.F_RDLCK, 0, 29, 7, 0))",
        "struct.unpack('hhqqi', fcntl.fcntl(file, fcntl.F_GETLK, struct.pack('hhqqi', fcntl.F_WRLCK, 0, 0, 0, 0)))[2]",
        "0",
    ),
    "a lock of the open file": (
        "fcntl.fcntl(file, 37, struct.pack('hhqqi', fcntl.F_RDLCK, 0, 29, 7, 0))",
        "struct.unpack('hhqqi', fcntl.fcntl(file, 36, struct.pack('hhqqi', fcntl.F_WRLCK, 0, 0, 0, 0)))[2]",
        "0",
    ),
    "a lock on the file": (
        "fcntl.flock(file, fcntl.LOCK_EX)",
        "fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)",
        "None",
    ),
    "a shared lock": ("fcntl.flock(file, fcntl.LOCK_SH)", "fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)", "None"),
}


@pytest.mark.parametrize("kind", LOCKS)
def test_an_agent_wants_to_tell_another_something_by(kind: str, neighbours: Neighbours) -> None:
    lock, look, free = LOCKS[kind]
    each = f"for path in {FILES!r}:\n    file = os.open(path, os.O_RDONLY)\n"
    holder = f"{each}    try:\n        {lock}\n    except OSError:\n        pass\nhold()"
    log = neighbours(holder, f"{each}    attempt(path, lambda: {look})")
    assert log.splitlines() == [f"{path} done {free}" for path in FILES]


def test_an_agent_wants_to_see_which_files_another_reads(neighbours: Neighbours, attack: Runner) -> None:
    watcher = (
        "watch = libc.inotify_init1(os.O_NONBLOCK)\n"
        f"for path in {FILES[:7]!r}:\n"
        "    assert libc.inotify_add_watch(watch, path.encode(), 0xfff) > 0\n"
        "print('ready', flush=True)\n"
        "while not os.path.exists('/home/data/../stop'):\n"
        "    time.sleep(0.1)\n"
        "    attempt('seen', os.read, watch, 4096)\n"
    )
    reader = f"for path in {FILES[:2]!r}:\n    open(path).read()\nos.listdir('/home/data'); print('read')"
    assert neighbours(watcher, reader) == "read\n"
    seen = set((attack.folder / "run-1/run.log").read_text().split("\n")) - {"ready", ""}
    assert seen == {"seen EAGAIN"}


SHARES = {
    "inotify instances": (
        "held = [fd for fd in as_many(lambda: libc.inotify_init(), 200) if fd >= 0]; hold()",
        "print(libc.inotify_init() >= 0)",
        "True",
    ),
    "terminals": (
        "held = as_many(pty.openpty, 4096); hold()",
        "print(len(as_many(pty.openpty, 100)))",
        "100",
    ),
    "asynchronous files": (
        "context = ctypes.c_ulong(0)\n"
        "def setup():\n    context = ctypes.c_ulong(0)\n    return call(206, 1024, ctypes.byref(context))\n"
        "held = as_many(setup, 4096); hold()",
        "context = ctypes.c_ulong(0)\nattempt('io_setup', call, 206, 1, ctypes.byref(context))\n"
        "print(open('/proc/sys/fs/aio-nr').read().strip())",
        "io_setup EPERM\n0",
    ),
    "message queues": (
        "held = as_many(lambda: call(240, f'q{time.monotonic_ns()}'.encode(), 0o102, 0o600, None), 300); hold()",
        "attempt('mq_open', call, 240, b'q', 0o102, 0o600, None)",
        "mq_open EPERM",
    ),
    "pending signals": (
        "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGRTMIN])\n"
        "libc.sigqueue.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_void_p]\n"
        "while libc.sigqueue(os.getpid(), signal.SIGRTMIN, None) == 0: pass\n"
        "hold()",
        "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGRTMIN])\n"
        "libc.sigqueue.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_void_p]\n"
        "print(libc.sigqueue(os.getpid(), signal.SIGRTMIN, None))",
        "0",
    ),
    "timers": (
        "timer = ctypes.c_void_p()\nwhile libc.timer_create(1, None, ctypes.byref(timer)) == 0: pass\nhold()",
        "timer = ctypes.c_void_p()\nprint(libc.timer_create(1, None, ctypes.byref(timer)))",
        "0",
    ),
    "pages of pipes": (
        "held = as_many(os.pipe, 1500); hold()",
        "print(fcntl.fcntl(os.pipe()[0], 1032))",
        "65536",
    ),
    "descriptors in flight": (
        "import resource\n"
        "def send():\n"
        "    a, b = socket.socketpair()\n"
        "    while True: socket.send_fds(a, [b'x'], [1] * 200, socket.MSG_DONTWAIT); keep.append((a, b))\n"
        "keep = []\n"
        "for number in range(4000):\n"
        "    try:\n        send()\n    except OSError as error:\n"
        "        if error.errno == errno.ETOOMANYREFS: break\n"
        "hold()",
        "import resource\nsoft = resource.getrlimit(resource.RLIMIT_NOFILE)\n"
        "a, b = socket.socketpair(); print(socket.send_fds(a, [b'x'], [1]))",
        "1",
    ),
    "shared memory of System V": (
        "held = as_many(lambda: call(29, 0x4d4c, 4096, 0o1666), 5000); hold()",
        "attempt('shmget', call, 29, 0x4d4c, 0, 0o666)\nprint(call(29, 0x4d4d, 4096, 0o1600) >= 0)",
        "shmget ENOENT\nTrue",
    ),
    "semaphores of System V": (
        "held = as_many(lambda: call(64, 0, 1, 0o1600), 40000); hold()",
        "print(call(64, 0x4d4c, 1, 0o1600) >= 0)",
        "True",
    ),
    "queues of System V": (
        "held = as_many(lambda: call(68, 0, 0o1600), 40000); hold()",
        "print(call(68, 0x4d4c, 0o1600) >= 0)",
        "True",
    ),
    "sockets by an abstract name": (
        "a = socket.socket(socket.AF_UNIX); a.bind('\\0mlebench'); a.listen(); hold()",
        "attempt('connect', socket.socket(socket.AF_UNIX).connect, '\\0mlebench')",
        "connect ECONNREFUSED",
    ),
    "ports of localhost": (
        "a = socket.create_server(('127.0.0.1', 7777)); hold()",
        "socket.create_server(('127.0.0.1', 7777)); print('bound')",
        "bound",
    ),
    "files in memory and in temporary folders": (
        "for path in ('/dev/shm/x', '/tmp/x', '/var/tmp/x', '/run/lock/x'):\n"
        "    try:\n        open(path, 'w').write('29 bytes')\n    except OSError:\n        pass\nhold()",
        "print([path for path in ('/dev/shm/x', '/tmp/x', '/var/tmp/x', '/run/lock/x') if os.path.exists(path)])",
        "[]",
    ),
    "processes to signal": (
        "hold()",
        "print(len([name for name in os.listdir('/proc') if name.isdecimal()]))\n",
        "2",
    ),
}


@pytest.mark.parametrize("what", SHARES)
def test_an_agent_wants_all(what: str, neighbours: Neighbours) -> None:
    holder, other, expected = SHARES[what]
    assert neighbours(holder, other).strip() == expected


def test_two_runs_have_different_user_ids_that_the_host_does_not_use(attack: Runner) -> None:
    numbers = [attack("id -u; id -un; id -gn").log.split() for _ in range(2)]
    assert [names[1:] for names in numbers] == [["nonroot", "nonroot"]] * 2
    assert numbers[0][0] != numbers[1][0]
    if ENGINE == "docker":
        assert all(int(names[0]) >= 0x70000000 for names in numbers)


def test_the_agents_user_owns_its_home_and_may_install_packages(attack: Runner) -> None:
    result = attack(
        "id=$(id -u); find /home -path /home/data -prune -o ! -uid $id -print; "
        "packages=$(python3 -c 'import numpy, os; print(os.path.dirname(os.path.dirname(numpy.__file__)))'); "
        "touch /home/agent/start.sh /home/submission/x $packages/x.py /opt/agent/bin/x && "
        "chmod 700 /home/agent/start.sh && python3 -c 'import x' && git init -q /home/code/r && "
        "git -C /home/code/r status -s && git -C /home/agent status 2>&1 | grep -c dubious; echo tried"
    )
    assert result.log.split() == ["0", "tried"]


def test_data_is_read_only_and_unchanged(attack: Runner) -> None:
    (attack.public / "images").chmod(0o755)
    (attack.public / "images/link").symlink_to("1.txt")
    (attack.public / "images/odd: name, with\\ all").write_text("odd")
    result = attack(
        "cd /home/data; touch x images/x 2>/dev/null && echo made; rm -rf images/* 2>/dev/null; "
        "chmod 777 . 2>/dev/null && echo changed; mv images moved 2>/dev/null && echo moved; "
        "cat images/link images/odd*; ls images | wc -l"
    )
    assert result.log.split() == ["an", "imageodd3"]
    assert "/home/data" not in str(result.execution.sandbox.notes)


@pytest.mark.parametrize("name", ["a:b", "a,b", "a b", "a\\:b", "ä'\"", "x" * 200])
def test_data_may_be_in_a_folder_with_any_name(name: str, attack: Runner, tmp_path: Path) -> None:
    folder = tmp_path / name / "public"
    folder.mkdir(parents=True)
    (folder / "here.csv").write_text("found\n")
    attack.public = folder
    result = attack("cat /home/data/here.csv; mount | grep -c '^overlay on /home/data'")
    assert result.log.split() == ["found", "1"]
    assert not any("shared with other runs" in note for note in result.execution.sandbox.notes)


def test_nothing_of_a_run_remains_in_the_engine(attack: Runner) -> None:
    client = docker.from_env()
    volumes: list[str] = []

    def look(path: Path) -> str:
        for container in client.containers.list(filters={"label": f"mlebench.pid={os.getpid()}"}):
            volumes.extend(mount["Name"] for mount in container.attrs["Mounts"] if mount["Type"] == "volume")
        return "seen"

    attack("curl -s -F file=@/home/data/sample_submission.csv $VALIDATION_URL/validate", validate=look)
    assert ENGINE == "podman" or len(volumes) == 2
    assert not {volume.id for volume in client.volumes.list()} & set(volumes)
    client.close()
