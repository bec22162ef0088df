"""Measures how exactly limits are enforced: an agent tries to exceed each limit, and its actual usage is measured.

Memory, CPUs, time and collected files are measured on the host, by control groups, clocks and files. The agent itself
counts what it could write or start.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import docker
import psutil
import pytest

from pytest_mlebench.errors import InvalidSubmission
from pytest_mlebench.grading.scorer import open_submission
from pytest_mlebench.sandbox import Sandbox
from pytest_mlebench.sandbox.checker import SubmissionChecker
from pytest_mlebench.sandbox.local import sandbox as local
from pytest_mlebench.sandbox.network.policy import Destination
from pytest_mlebench.sandbox.network.proxy import Proxy
from tests.sandbox.scripted import MB, Result, Runner, docker_sandbox, engine_problem, local_sandbox, make_runner

FILL = """
import os
def fill(descriptor):
    written = 0
    try:
        while written < (1 << 29): written += os.write(descriptor, bytes(1 << 16))
    except OSError: pass
    return written
def new(path, flags=0): return os.open(path, os.O_CREAT | os.O_WRONLY | flags, 0o600)
"""
EAT = """
import os, time
for _ in range(4):
    if os.fork() == 0:
        blocks = []
        while True: blocks.append(b"x" * (1 << 20))
time.sleep(60)
"""
SPIN = "for i in 1 2 3 4; do python3 -c 'while True: pass' & done; sleep 8; kill $(jobs -p)"
FORK = """
import os, time
n = 1
try:
    while n < 5000:
        if os.fork() == 0: time.sleep(30); os._exit(0)
        n += 1
except OSError: pass
print(n + 2)
"""  # the sum includes the harness's first process and the shell
SANDBOXES: dict[str, Callable[[], Sandbox]] = {
    "Docker": docker_sandbox,
    "watched": lambda: docker_sandbox(loop_disks=False),
    "local": local_sandbox,
    "looking": local_sandbox,  # memory is polled, as if control groups were unavailable
}


@pytest.fixture(params=list(SANDBOXES))
def runner(request: pytest.FixtureRequest, tmp_path: Path) -> Runner:
    if request.param in ("Docker", "watched") and (problem := engine_problem()):
        pytest.skip(problem)
    return make_runner(SANDBOXES[request.param](), tmp_path)


@pytest.fixture
def sandbox(runner: Runner, request: pytest.FixtureRequest) -> str:
    return str(request.node.callspec.params["runner"])


Note = Callable[..., None]


@pytest.fixture
def note(figures: dict[str, list[dict[str, Any]]]) -> Note:
    def add(sandbox: str, limit: str, asked: float, reached: float, unit: str) -> None:
        figures["limits"].append({"sandbox": sandbox, "limit": limit, "asked": asked, "reached": reached, "unit": unit})

    return add


@dataclass
class Outside:
    """Resource usage of a running agent as measured on the host."""

    folder: Path
    in_containers: bool
    memory: int = 0
    cpus: float = 0.0
    _samples: list[tuple[float, float]] = field(default_factory=list)
    _known: set[str] = field(default_factory=set)

    def look(self) -> None:
        self._look_at_processes()
        if self.in_containers:
            self._look_at_groups()
        groups = (Path("/sys/fs/cgroup", where).glob("mlebench-memory-*") for where in ("", "memory"))
        for group in chain(*groups):
            for file in ("memory.max_usage_in_bytes", "memory.peak"):
                with suppress(OSError, ValueError):
                    self.memory = max(self.memory, int((group / file).read_text()))

    def _look_at_groups(self) -> None:
        for group in Path("/sys/fs/cgroup/memory/docker").glob("*"):
            with suppress(OSError, ValueError):
                if group.name in self._containers():
                    self.memory = max(self.memory, int((group / "memory.max_usage_in_bytes").read_text()))
                    usage = Path("/sys/fs/cgroup/cpuacct/docker", group.name, "cpuacct.usage")
                    self._samples.append((time.monotonic(), int(usage.read_text()) / 1e9))
        for group in Path("/sys/fs/cgroup/system.slice").glob("docker-*.scope"):
            with suppress(OSError, ValueError):
                self.memory = max(self.memory, int((group / "memory.peak").read_text()))
        if len(self._samples) > 1:
            (first, before), (last, after) = self._samples[0], self._samples[-1]
            if last - first > 4:
                self.cpus = (after - before) / (last - first)

    def _containers(self) -> set[str]:
        if not self._known:
            client = docker.from_env()
            found = client.containers.list(filters={"label": f"mlebench.pid={os.getpid()}"})
            self._known = {container.id or "" for container in found}
            client.close()
        return self._known

    def _look_at_processes(self) -> None:
        total = 0
        for process in psutil.Process().children(recursive=True):
            with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                if process.environ().get("HOME", "").startswith(str(self.folder)):
                    total += process.memory_full_info().uss
        self.memory = max(self.memory, total)


@contextmanager
def watched(folder: Path, sandbox: str) -> Iterator[Outside]:
    outside, done = Outside(folder, sandbox not in ("local", "looking")), threading.Event()

    def watch() -> None:
        while not done.wait(0.02):
            outside.look()

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield outside
    finally:
        done.set()
        thread.join()


def python(code: str) -> str:
    return f"cat > $HOME/x.py <<'EOF'\n{code}\nEOF\npython3 $HOME/x.py"


def number(result: Result) -> float:
    words = [word for word in result.log.split() if word.isdigit()]
    return float(words[-1]) if words else 0.0


def skip_watched(sandbox: str) -> None:
    if sandbox in ("watched", "looking"):
        pytest.skip("this variant differs only in its disk or memory limit")


def test_memory(runner: Runner, sandbox: str, note: Note, monkeypatch: pytest.MonkeyPatch) -> None:
    if sandbox == "watched":
        pytest.skip("this variant differs only in its disk limit")
    if sandbox == "looking":
        monkeypatch.setattr(local, "MEMORY_GROUP", "no/such/folder/")
    with watched(runner.folder, sandbox) as outside:
        runner(python(EAT), memory=256 * MB, time_limit=6)
    note(sandbox, "memory, four processes", 256, outside.memory / MB, "MB")


def test_processors(runner: Runner, sandbox: str, note: Note) -> None:
    if sandbox != "Docker":
        pytest.skip("the local sandbox assigns whole CPUs, not shares")
    with watched(runner.folder, sandbox) as outside:
        runner(SPIN, cpus=0.5, time_limit=30)
    note(sandbox, "CPUs, four busy loops", 0.5, outside.cpus, "CPUs")


WAYS = {
    "one file": "print(fill(new('a')) >> 20)",
    "twenty files": "print(sum(fill(new(f'a{n}')) for n in range(20)) >> 20)",
    "deleted open files": (
        "t = 0\nfor n in range(20):\n    f = new('a'); os.unlink('a'); t += fill(f)\nprint(t >> 20)"
    ),
    "/tmp and /var/tmp": "print(sum(fill(new(f'{d}/limit-{os.getpid()}')) for d in ('/tmp', '/var/tmp')) >> 20)",
}


@pytest.mark.parametrize("way", WAYS)
def test_disk(way: str, runner: Runner, sandbox: str, note: Note) -> None:
    if sandbox in ("local", "looking") and way != "one file":
        pytest.skip("the local sandbox limits only the size of each file")
    progress = "import sys\n" + FILL.replace("written +=", "print(end='', flush=True); written +=")
    if sandbox == "watched":  # print the amount regularly, because the agent will be stopped
        progress = FILL.replace(
            "        while written < (1 << 29): written += os.write(descriptor, bytes(1 << 16))",
            "        while written < (1 << 29):\n"
            "            written += os.write(descriptor, bytes(1 << 16))\n"
            "            global all_of_it; all_of_it += 1 << 16\n"
            "            if all_of_it % (1 << 20) == 0: print(all_of_it >> 20, flush=True)",
        ).replace("def fill", "all_of_it = 0\ndef fill", 1)
    code = f"{progress}\nos.chdir(os.environ['HOME'])\n{WAYS[way]}"
    result = runner(python(code), disk=64 * MB, time_limit=60)
    note(sandbox, f"disk, {way}", 64, number(result), "MB")


def test_inodes(runner: Runner, sandbox: str, note: Note) -> None:
    if sandbox != "Docker":
        pytest.skip("only separate disks limit inodes")
    code = "import os\nos.chdir(os.environ['HOME'])\nn = 0\ntry:\n"
    code += "    while n < 50000: open(f'i{n}', 'x').close(); n += 1\n"
    result = runner(python(code + "except OSError: pass\nprint(n)"), disk=64 * MB)
    note(sandbox, "inodes, disk of 64 MB", 4096, number(result), "files")


def test_processes(runner: Runner, sandbox: str, note: Note) -> None:
    if sandbox != "Docker":
        pytest.skip("the local sandbox does not limit the number of processes")
    result = runner(python(FORK), processes=64, time_limit=20)
    note(sandbox, "processes", 64, number(result), "")


@pytest.mark.parametrize("seconds", [5, 20, 60])
def test_time(seconds: int, runner: Runner, sandbox: str, note: Note) -> None:
    skip_watched(sandbox)
    result = runner("trap '' TERM; while true; do sleep 1; done", time_limit=seconds)
    note(sandbox, "time, agent ignores SIGTERM", seconds, result.execution.seconds, "s")


def test_log(runner: Runner, sandbox: str, note: Note) -> None:
    skip_watched(sandbox)
    result = runner("exec yes flood", time_limit=5, log_bytes=2 * MB)
    size = sum(path.stat().st_size for path in result.run_dir.glob("run.log*"))
    note(sandbox, "log", 2, size / MB, "MB")


def test_collected(runner: Runner, sandbox: str, note: Note) -> None:
    skip_watched(sandbox)
    script = "cd $LOGS_DIR; for i in $(seq 300); do head -c 400k /dev/zero > $i; done; "
    script += "cd $CODE_DIR; for i in $(seq 60); do truncate -s 48M sparse-$i; done"
    result = runner(script, collect_bytes=10 * MB, collect_files=50)
    for limit, asked, found in (("files collected from a folder", 50, "logs"), ("collected from a folder", 10, "logs")):
        files = [path for path in (result.run_dir / found).rglob("*") if path.is_file()]
        reached = len(files) if asked == 50 else sum(path.stat().st_size for path in files) / MB
        note(sandbox, limit, asked, reached, "files" if asked == 50 else "MB")
    result = runner(script, disk=64 * MB)
    sizes = [path.stat().st_size for path in result.run_dir.rglob("*") if path.is_file()]
    note(sandbox, "collected in total, with a disk limit", 64, sum(sizes) / MB, "MB")


def test_record(runner: Runner, sandbox: str, note: Note) -> None:
    if sandbox != "Docker":
        pytest.skip("there is no proxy")
    flood = (
        "import socket\nfor n in range(1500):\n    s = socket.create_connection(('localhost', 3128))\n"
        "    s.sendall(b'X' * 30000 + b' http://' + b'h' * 9000 + b'/ HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n')\n"
        "    s.recv(100)\n"
    )
    names = "cd $LOGS_DIR; for i in $(seq 300); do ln -s x $(printf 'n%.0s' $(seq 240))$i; done"
    result = runner(f"{python(flood)}; {names}")
    note(sandbox, "sandbox's part of run.json", 1000, len(json.dumps(result.execution.sandbox.to_json())) / 1000, "kB")


def test_submission_size(tmp_path: Path, note: Note) -> None:
    path, largest = tmp_path / "submission.csv", 0
    for size in range(MB - 2, MB + 2 * 65536, 16384):
        path.write_bytes(bytes(size))
        with suppress(InvalidSubmission), open_submission(path, MB):
            largest = size
    note("both", "submission", 1, largest / MB, "MB")


def test_checks_per_minute(tmp_path: Path, note: Note) -> None:
    body = b'--x\r\nContent-Disposition: form-data; name="file"\r\n\r\nid\r\n--x--\r\n'
    head = "POST /validate HTTP/1.1\r\nContent-Type: multipart/form-data; boundary=x\r\n"
    head += f"Content-Length: {len(body)}\r\n\r\n"
    allowed, started = 0, time.monotonic()
    with SubmissionChecker(lambda file: "ok", unix_socket=tmp_path / "s", step=0.01):
        while time.monotonic() - started < 55:
            with closing(socket.socket(socket.AF_UNIX)) as connection:
                connection.connect(str(tmp_path / "s"))
                connection.sendall(head.encode() + body)
                allowed += b" 200 " in connection.recv(1000)
            time.sleep(0.3)
    note("both", "checks per minute", 30, allowed, "")


def test_connections(tmp_path: Path, note: Note) -> None:
    with ExitStack() as stack:
        listener = stack.enter_context(closing(socket.create_server(("127.0.0.1", 0), backlog=256)))
        port = listener.getsockname()[1]
        stack.enter_context(Proxy([Destination.parse(f"http://127.0.0.1:{port}")], unix_socket=tmp_path / "p"))
        for _ in range(100):
            connection = stack.enter_context(closing(socket.socket(socket.AF_UNIX)))
            connection.connect(str(tmp_path / "p"))
            connection.sendall(f"GET http://127.0.0.1:{port}/ HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
        listener.settimeout(2)
        arrived = 0
        with suppress(TimeoutError):
            while True:
                stack.enter_context(closing(listener.accept()[0]))
                arrived += 1
    note("Docker", "concurrent connections by the proxy", 64, arrived, "")
