"""``kill -9`` on any process of a session at any time: no run is lost or done twice, and nothing is left behind.

``MLEBENCH_TEST_KILLS`` is the number of kills of each test.
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from pytest_mlebench.results import read_group
from pytest_mlebench.sandbox.contract import MEMORY_GROUP, SOCKETS, UPLOADS
from pytest_mlebench.sandbox.docker.client import FULL_NETWORK
from pytest_mlebench.sandbox.docker.container import PREFIX as DISKS
from pytest_mlebench.sandbox.docker.images import NETWORK
from tests.plugin.engine import Engine, own_engine
from tests.sandbox.conftest import require_docker
from tests.sandbox.scripted import docker_sandbox

pytestmark = [pytest.mark.full, pytest.mark.serial]

KILLS = int(os.environ.get("MLEBENCH_TEST_KILLS", "10"))
RUNS = 12
SEED = int(os.environ.get("MLEBENCH_TEST_SEED", "7"))
VICTIMS = ("session", "everything", "xdist worker", "xdist worker", "grading process", "grading process", "grader")


class Sessions:
    """Sessions of consecutive run groups, with all processes that they ever had."""

    def __init__(self, folder: Path, *options: str, environment: dict[str, str] | None = None) -> None:
        self.folder = folder
        self.seen: set[psutil.Process] = set()
        self.killed: Counter[str] = Counter()
        self.groups = 0
        self._options = options
        self._environment = {**os.environ, **(environment or {})}
        self._session: psutil.Popen | None = None
        self.new_group()

    def new_group(self) -> None:
        self.groups += 1
        self.group = self.folder / f"reports/kills-{uuid.uuid4().hex[:8]}"

    def start(self, *more: str) -> None:
        command = [sys.executable, "-m", "pytest", "competitions/toy-parity", f"--run-group={self.group.name}", "-n2"]
        agent = ["--agent=toy/slow", f"--seeds={RUNS}", "--retry-failed=all", "-pno:cacheprovider", "--time-limit=60s"]
        with (self.folder / "session.log").open("ab") as log:
            self._session = psutil.Popen(
                [*command, *agent, *self._options, *more],
                cwd=self.folder,
                env=self._environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def look(self) -> list[psutil.Process]:
        """The session's current processes."""
        assert self._session is not None
        with suppress(psutil.NoSuchProcess):
            found = [self._session, *self._session.children(recursive=True)]
            self.seen.update(map(psutil.Process, (process.pid for process in found if process.is_running())))
            return found
        return []

    def ended(self) -> bool:
        assert self._session is not None
        return self._session.poll() is not None

    def was_killed(self) -> bool:
        """Whether the session was killed. If it had no time for its reports, the next session writes them."""
        assert self._session is not None
        return bool(self._session.poll() == -signal.SIGKILL)

    def wait(self) -> None:
        assert self._session is not None
        deadline = time.monotonic() + 300
        while self._session.poll() is None:
            self.look()
            assert time.monotonic() < deadline, self.log()
            time.sleep(0.1)

    def kill(self, kind: str, rng: random.Random) -> bool:
        """Kill a process of the given kind; return False if there is none now."""
        processes = self.look()
        assert self._session is not None
        chosen: list[psutil.Process] = []
        if kind == "everything":
            chosen = processes
        elif processes and (found := [process for process in processes if self._kind(process) == kind]):
            chosen = [rng.choice(found)]
        for process in chosen:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        if chosen:
            self.killed[kind] += 1
        if chosen and kind in ("session", "everything"):
            self._session.wait()
        return bool(chosen)

    def _kind(self, process: psutil.Process) -> str:
        assert self._session is not None
        if process.pid == self._session.pid:
            return "session"
        try:
            parent, command = process.parent(), " ".join(process.cmdline())
            if process.name() == "grading.process":
                return "grader" if parent and parent.name() == "grading.process" else "grading process"
            return "xdist worker" if parent == self._session and "exec(eval(" in command else ""
        except psutil.NoSuchProcess:
            return ""

    def log(self) -> str:
        return (self.folder / "session.log").read_text(errors="replace")[-6000:]

    def finished(self) -> int:
        return len(read_group(self.group).records) if (self.group / "manifest.json").exists() else 0

    def check_group(self) -> None:
        """Check that every run exists exactly once, as without kills."""
        group = read_group(self.group)
        outcomes = Counter(record.outcome.value for record in group.records)
        assert outcomes == {"gold": RUNS}, (outcomes, [record.error or record.report.error for record in group.records])
        assert {record.key for record in group.records} == group.planned and not group.broken
        metadata = json.loads((self.group / "metadata.json").read_text())
        report = json.loads((self.group / "grading_report.json").read_text())
        assert len(metadata["runs"]) == len(report["competition_reports"]) == RUNS
        if not self.killed["engine"]:  # a killed engine makes runs end with an error, which are retried
            assert len(list(self.group.glob("*/run.json"))) == RUNS, "a run was done twice"


def leftovers(sessions: Sessions) -> list[str]:
    """Processes, temporary files, control groups, mounts and loop devices that the sessions left."""
    pids = {process.pid for process in sessions.seen}
    found = [f"process {process}" for process in sessions.seen if process.is_running() and process.status() != "zombie"]
    own = {os.getpid(), *(parent.pid for parent in psutil.Process().parents())}
    for process in psutil.process_iter():
        with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            texts = [process.cwd(), *process.environ().values()]
            if process.pid not in own and any(str(sessions.folder) in text for text in texts):
                found.append(f"process {process}")
    owned = re.compile(rf"({SOCKETS}|{UPLOADS}|{DISKS})(\d+)-")
    for folder in (Path(tempfile.gettempdir()), Path("/tmp"), Path("/var/tmp")):
        names = (owned.match(path.name) for path in folder.iterdir())
        found += [name.string for name in names if name is not None and int(name[2]) in pids]
    found += map(str, sessions.folder.glob("reports/*/*/.home-*"))
    for hierarchy in (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/memory")):
        found += [str(path) for pid in pids for path in hierarchy.glob(f"{MEMORY_GROUP}{pid}-*")]
    for table in (
        Path("/proc/mounts").read_text(),
        subprocess.run(["losetup", "-a"], capture_output=True, text=True).stdout,
    ):
        found += [line for line in table.splitlines() if any(f"{DISKS}{pid}-" in line for pid in pids)]
    return found


def containers(host: str, sessions: Sessions) -> list[str]:
    environment = {**os.environ, "DOCKER_HOST": host} if host else os.environ
    format = '{{.ID}} {{.Label "mlebench.pid"}}'
    command = ["docker", "ps", "-a", "--filter", "label=mlebench.pid", "--format", format]
    lines = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.splitlines()
    pids = {str(process.pid) for process in sessions.seen}
    return [line for line in lines if line.split()[-1] in pids]


def networks_and_volumes(host: str) -> list[str]:
    """Networks and volumes of an engine, except its defaults and the two networks that all sessions share."""
    environment = {**os.environ, "DOCKER_HOST": host} if host else os.environ
    known = {"bridge", "host", "none", FULL_NETWORK, NETWORK}
    found = []
    for command in (["network", "ls", "--format={{.Name}}"], ["volume", "ls", "--quiet"]):
        output = subprocess.run(
            ["docker", *command], env=environment, capture_output=True, text=True, check=True
        ).stdout
        found += [f"{command[0]} {name}" for name in output.split() if name not in known]
    return found


def kill_at_random(
    sessions: Sessions, kills: int, kill: Callable[[str, random.Random], bool], kinds: tuple[str, ...]
) -> None:
    rng = random.Random(SEED)
    sessions.start()
    done = 0
    while done < kills:
        kind, until = rng.choice(kinds), time.monotonic() + rng.uniform(0.0, 5.0)
        while time.monotonic() < until and not sessions.ended():
            sessions.look()
            time.sleep(0.02)
        if sessions.ended():
            if sessions.finished() == RUNS and not sessions.was_killed():
                sessions.check_group()
                sessions.new_group()
            sessions.start()
            continue
        deadline = time.monotonic() + 3.0  # a grader runs only briefly
        while not (hit := kill(kind, rng)) and time.monotonic() < deadline and not sessions.ended():
            time.sleep(0.005)
        done += hit
    for _ in range(4):
        if not sessions.ended():
            sessions.wait()
        if sessions.finished() == RUNS and sessions.ended():
            break
        sessions.start()
    sessions.start()  # the next session only has to clean up
    sessions.wait()
    sessions.check_group()
    print(f"kills: {dict(sessions.killed)} in {sessions.groups} groups of {RUNS} runs")


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    require_docker()
    if os.geteuid() != 0:
        pytest.skip("only root can start an engine")
    from pytest_mlebench.agents.registry import read_config

    (agent, *_) = read_config(Path(__file__).parents[1] / "toys/agents/toy/config.yaml")
    images = docker_sandbox().images  # type: ignore[attr-defined]
    with own_engine(Path(f"/var/tmp/engine-{uuid.uuid4().hex[:8]}")) as engine:
        engine.load(images.environment(), images.agent(agent))
        yield engine


def test_killing_local_sessions_loses_no_run_and_leaves_nothing(project: pytest.Pytester) -> None:
    sessions = Sessions(project.path)
    kill_at_random(sessions, KILLS, sessions.kill, VICTIMS)
    assert leftovers(sessions) == []


@pytest.mark.docker
def test_killing_sessions_with_containers_loses_no_run_and_leaves_nothing(project: pytest.Pytester) -> None:
    require_docker()
    sessions = Sessions(project.path, "--sandbox=docker", "--disk=100m")
    kill_at_random(sessions, KILLS, sessions.kill, VICTIMS)
    assert leftovers(sessions) == [] and containers("", sessions) == []


@pytest.mark.docker
def test_killing_the_engine_loses_no_run_and_leaves_nothing(project: pytest.Pytester, engine: Engine) -> None:
    sessions = Sessions(
        project.path, "--sandbox=docker", "--disk=100m", "--network=none", environment={"DOCKER_HOST": engine.host}
    )

    def kill(kind: str, rng: random.Random) -> bool:
        if kind != "engine":
            return sessions.kill(kind, rng)
        engine.kill()
        sessions.killed[kind] += 1
        time.sleep(rng.uniform(0.0, 2.0))
        engine.start()
        return True

    kill_at_random(sessions, max(4, KILLS // 3), kill, ("engine", "engine", *VICTIMS))
    assert leftovers(sessions) == [] and containers(engine.host, sessions) == []
    assert networks_and_volumes(engine.host) == []
