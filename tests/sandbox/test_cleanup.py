"""A session leaves nothing behind, however it ends; `clean` finds only the leftovers of killed sessions."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from pathlib import Path

import docker
import psutil
import pytest

from pytest_mlebench.errors import SandboxError
from pytest_mlebench.io.processes import LABEL, dead_folders, is_dead, owned_prefix, owner_labels
from pytest_mlebench.sandbox.contract import SOCKETS, Leftover
from pytest_mlebench.sandbox.docker import cleanup
from pytest_mlebench.sandbox.docker.cleanup import clean
from tests.sandbox.scripted import ENGINE, Runner, docker_sandbox, script_agent

SESSION = """
import sys
from pathlib import Path
sys.path.insert(0, {here!r})
from tests.sandbox.scripted import docker_sandbox, make_runner
run = make_runner(docker_sandbox(), Path({folder!r}))
run({script!r}, time_limit=600, keep={keep})
"""

LOCAL_SESSION = SESSION.replace("docker_sandbox", "local_sandbox")

TOYS = Path(__file__).parents[1] / "toys"


class Session:
    """Another process that runs a sleeping agent."""

    def __init__(
        self, folder: Path, keep: bool = False, session: str = SESSION, script: str = "echo ready; sleep 600"
    ) -> None:
        folder.mkdir()
        code = session.format(here=str(Path(__file__).parents[2]), folder=str(folder), script=script, keep=keep)
        self.process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.DEVNULL)
        log = folder / "run-1/run.log"
        deadline = time.monotonic() + 60
        while not (log.exists() and log.read_text() == "ready\n"):
            assert time.monotonic() < deadline and self.process.poll() is None
            time.sleep(0.05)

    def end(self, number: int) -> int:
        self.process.send_signal(number)
        return self.process.wait(60)


@pytest.fixture
def session(docker_engine: None, tmp_path: Path) -> Iterator[Session]:
    docker_sandbox().prepare(script_agent())  # building the image takes longer than a session's timeout
    session = Session(tmp_path / "session")
    yield session
    session.process.kill()
    session.process.wait()
    clean(ENGINE)


def containers(pid: int, *, all: bool = True) -> list[str]:
    found = docker.from_env().containers.list(all=all, filters={"label": f"mlebench.pid={pid}"})
    return [container.name or "" for container in found]


def folders(pid: int) -> list[Path]:
    return list(Path("/tmp").glob(f"{SOCKETS}*-{pid}-*"))


@pytest.mark.docker
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_session_leaves_nothing(session: Session, number: int) -> None:
    assert len(containers(session.process.pid)) == 1
    session.end(number)
    assert containers(session.process.pid) == []
    assert folders(session.process.pid) == []


@pytest.mark.full
@pytest.mark.parametrize("victims", ["harness", "supervisor", "all but the agent"])
def test_a_local_agent_ends_with_the_processes_that_started_it(victims: str, tmp_path: Path) -> None:
    script = "mkdir -p $(printf 'd/%.0s' $(seq 1500)); echo ready; sleep 600"
    session = Session(tmp_path / "session", session=LOCAL_SESSION, script=script)
    harness = psutil.Process(session.process.pid)
    supervisor = next(child for child in harness.children() if "supervisor.py" in " ".join(child.cmdline()))
    (agent,) = supervisor.children()
    try:
        if victims != "harness":
            supervisor.kill()
        if victims != "supervisor":
            harness.kill()
        session.process.wait(60)
        psutil.wait_procs([agent], timeout=60)
        assert not agent.is_running() or agent.status() == psutil.STATUS_ZOMBIE
        deadline = time.monotonic() + 60
        while homes := list((tmp_path / "session").glob("run-1/.home-*")):
            assert time.monotonic() < deadline, homes
            time.sleep(0.1)
    finally:
        for process in (harness, supervisor, agent):
            with suppress(psutil.NoSuchProcess):
                process.kill()


@pytest.mark.full
def test_processes_started_by_a_local_agent_end_if_all_others_are_killed_at_once(tmp_path: Path) -> None:
    script = "(setsid sleep 600 &); sleep 600 & echo ready; wait"
    session = Session(tmp_path / "session", session=LOCAL_SESSION, script=script)
    harness = psutil.Process(session.process.pid)
    supervisor = next(child for child in harness.children() if "supervisor.py" in " ".join(child.cmdline()))
    family = [harness, supervisor, *supervisor.children(recursive=True)]
    sleeps = [process for process in family[2:] if process.name() == "sleep"]
    try:
        assert len(sleeps) == 2
        for process in family:
            if process not in sleeps:
                process.suspend()  # so that none of them notices the end of another and cleans up
        for process in family:
            if process not in sleeps:
                process.kill()
        session.process.wait(60)
        psutil.wait_procs(sleeps, timeout=60)
        assert not any(process.is_running() and process.status() != psutil.STATUS_ZOMBIE for process in sleeps)
        deadline = time.monotonic() + 60
        while homes := list((tmp_path / "session").rglob(".home-*")):
            assert time.monotonic() < deadline, homes
            time.sleep(0.1)
    finally:
        for process in family:
            with suppress(psutil.NoSuchProcess):
                process.kill()


@pytest.mark.full
def test_a_job_ended_process_by_process_is_an_interrupted_run(tmp_path: Path) -> None:
    session = Session(tmp_path / "session", session=LOCAL_SESSION)
    harness = psutil.Process(session.process.pid)
    supervisor = next(child for child in harness.children() if "supervisor.py" in " ".join(child.cmdline()))
    (agent,) = supervisor.children()
    try:
        supervisor.terminate()
        time.sleep(0.5)
        assert agent.is_running() and supervisor.is_running(), "the harness does not know the cause yet"
        harness.terminate()
        assert session.process.wait(60) == -signal.SIGINT, "not ended by a KeyboardInterrupt"
        psutil.wait_procs([supervisor, agent], timeout=60)
        assert not agent.is_running()
    finally:
        for process in (harness, supervisor, agent):
            with suppress(psutil.NoSuchProcess):
                process.kill()


@pytest.mark.docker
@pytest.mark.serial  # another session would clean it up at its start
def test_a_killed_sessions_agent_ends_by_itself_and_clean_removes_the_rest(session: Session) -> None:
    pid = session.process.pid
    session.end(signal.SIGKILL)
    deadline = time.monotonic() + 20
    while containers(pid, all=False) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert containers(pid, all=False) == []  # no container is running
    (container,) = containers(pid)
    (folder,) = folders(pid)
    assert {leftover.name for leftover in clean(ENGINE, dry_run=True)} >= {container, str(folder)}
    removed = {leftover.name: leftover for leftover in clean(ENGINE)}
    assert removed[container].run_group == "tests"
    assert containers(pid) == []
    assert folders(pid) == []


@pytest.mark.docker
def test_clean_removes_only_leftovers_of_dead_sessions(session: Session, run_in_container: Runner) -> None:
    client = docker.from_env()
    image = run_in_container.sandbox.images.environment()  # type: ignore[attr-defined]
    name = f"mlebench-test-{uuid.uuid4().hex[:8]}"
    elsewhere = {**owner_labels(), "mlebench.host": "another-machine", "mlebench.pid": "1"}
    plain = client.containers.create(image, name=f"{name}-plain")
    foreign = client.containers.create(image, name=f"{name}-foreign", labels=elsewhere)
    try:
        clean(ENGINE)
        assert len(containers(session.process.pid, all=False)) == 1
        assert len(folders(session.process.pid)) == 1
        for container in (plain, foreign):
            container.reload()
    finally:
        plain.remove()
        foreign.remove()


@pytest.mark.docker
def test_a_kept_container_stays_until_its_removal_is_requested(run_in_container: Runner) -> None:
    result = run_in_container("echo x > /home/note", keep=True)
    container = docker.from_env().containers.get(result.execution.sandbox.kept.removeprefix("container "))
    try:
        assert container.status == "exited"
        assert container.labels["mlebench.keep"] == "true"
        assert container.name not in [leftover.name for leftover in clean(ENGINE)]
    finally:
        container.remove()


def test_a_reused_pid_is_not_mistaken_for_the_owner() -> None:
    labels = owner_labels()
    assert not is_dead(labels)
    assert is_dead({**labels, "mlebench.pid-start": "1"})
    assert is_dead({**labels, "mlebench.boot": "before"})
    assert is_dead({**labels, "mlebench.pid": "4999999"})


def test_owners_that_cannot_be_checked_are_not_dead() -> None:
    dead = {**owner_labels(), "mlebench.pid-start": "1"}
    assert is_dead(dead)
    assert not is_dead({**dead, "mlebench.host": "elsewhere"})
    assert not is_dead({**dead, "mlebench.pid-namespace": "pid:[1]"})
    assert not is_dead({})
    assert not is_dead({key: value for key, value in dead.items() if key != "mlebench.boot"} | {"mlebench.pid": "x"})


@pytest.mark.parametrize("installed", [True, False])
def test_folders_of_killed_runs_are_removed_even_without_an_engine(
    installed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    cleaned: list[Leftover] = []

    def closed(engine: str) -> None:
        raise SandboxError("no engine answers")

    def clean_folders(**_: object) -> list[Leftover]:  # the real one would remove folders of other tests
        cleaned.append(Leftover("folder", "left"))
        return cleaned

    monkeypatch.setattr(cleanup, "open_client", closed)
    monkeypatch.setattr(cleanup, "clean_folders", clean_folders)
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    monkeypatch.setattr(shutil, "which", lambda name: name if installed and name == "docker" else None)
    with pytest.raises(SandboxError, match="no engine answers") if installed else nullcontext():
        assert cleanup.clean_all() == cleaned
    assert len(cleaned) == 1


def test_a_zombie_is_dead() -> None:
    child = os.fork()
    if child == 0:
        os._exit(0)
    time.sleep(0.2)
    try:
        assert is_dead({**owner_labels(), "mlebench.pid": str(child)})
    finally:
        os.waitpid(child, 0)


@pytest.mark.docker
def test_a_killed_and_resumed_run_group_leaves_no_container(docker_engine: None, tmp_path: Path) -> None:
    shutil.copytree(TOYS, tmp_path, dirs_exist_ok=True)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmlebench_data_dir = data\nmlebench_agents_dir = agents\n")
    group = f"toys-{uuid.uuid4().hex[:8]}"
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", f"--sandbox={ENGINE}"]
    options = ["competitions/toy-parity", "--agent=toy/sleeps", f"--run-group={group}"]

    def left() -> list[str]:
        found = docker.from_env().containers.list(all=True, filters={"label": f"{LABEL}run-group={group}"})
        return [container.name or "" for container in found]

    with (tmp_path / "session.log").open("wb") as log:
        session = subprocess.Popen([*command, *options], cwd=tmp_path, stdout=log, stderr=log)
    deadline = time.monotonic() + 120
    while not any("going to sleep" in path.read_text() for path in tmp_path.glob("reports/*/*/run.log")):
        assert time.monotonic() < deadline and session.poll() is None, (tmp_path / "session.log").read_text()
        time.sleep(0.1)
    session.kill()
    session.wait()
    assert len(left()) == 1
    resumed = [*command, f"--resume={group}", "--time-limit=1s", "--allow-changes"]
    done = subprocess.run(resumed, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "1 timed out" in done.stdout, done.stdout
    assert "removing container" in done.stdout
    assert left() == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
def test_the_mounted_disk_of_a_dead_session_is_removed(docker_engine: None) -> None:
    mine = owned_prefix("mlebench-disk-")
    folder = Path(f"/var/tmp/{mine.replace(f'-{os.getpid()}-', f'-{2**22 + 7}-')}{uuid.uuid4().hex}")
    for name in ("root", "disk"):
        (folder / name).mkdir(parents=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", folder / name], check=True)
    assert f"disk {folder}" in map(str, clean(ENGINE, dry_run=True))
    assert folder.exists()
    assert f"disk {folder}" in map(str, clean(ENGINE))
    assert not folder.exists()


def test_folders_of_another_machine_are_not_mistaken_for_those_of_dead_sessions(tmp_path: Path) -> None:
    """Nodes of a cluster may share a folder, so PIDs in it may belong to another machine."""
    kind, machine, *_ = owned_prefix("run-").split("-")
    for name in (f"{kind}-{machine}-99999999-1-x", f"{kind}-000000-99999999-1-x", f"{owned_prefix('run-')}x"):
        (tmp_path / name).mkdir()
    assert [path.name for path in dead_folders("run-", [tmp_path])] == [f"{kind}-{machine}-99999999-1-x"]
