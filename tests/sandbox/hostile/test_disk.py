"""Attacks on the disk: an agent tries to exceed its space limit. A separate disk enforces the limit, or the
harness measures usage."""

from __future__ import annotations

import os
import shutil
import uuid
from dataclasses import replace
from pathlib import Path

import docker
import pytest

from pytest_mlebench.errors import SandboxError
from pytest_mlebench.io.units import format_size
from pytest_mlebench.sandbox import Ending
from tests.sandbox.scripted import MB, SAMPLE, SUBMIT, Runner, docker_sandbox, make_runner, script_agent

pytestmark = [pytest.mark.docker, pytest.mark.serial]
needs_root = pytest.mark.skipif(
    os.geteuid() != 0 or not Path("/dev/loop-control").exists(), reason="only root can make disks"
)

LIMIT = 64 * MB
# Writes to descriptors until writing fails; prints the megabytes written.
WRITE = """
import os, sys
def fill(descriptor):
    written = 0
    try:
        while written < (1 << 29):
            written += os.write(descriptor, bytes(1 << 16))
    except OSError:
        pass
    return written
"""
WAYS = {
    "one file": "print(fill(os.open('/home/a', os.O_CREAT | os.O_WRONLY)) >> 20)",
    "many files": "print(sum(fill(os.open(f'/home/a{n}', os.O_CREAT | os.O_WRONLY)) for n in range(20)) >> 20)",
    "deleted files that are open": (
        "total = 0\n"
        "for n in range(20):\n"
        "    file = os.open('/home/a', os.O_CREAT | os.O_WRONLY); os.unlink('/home/a'); total += fill(file)\n"
        "print(total >> 20)"
    ),
    "temporary files": (
        "print(sum(fill(os.open(f'{folder}/a', os.O_CREAT | os.O_WRONLY)) for folder in ('/tmp', '/var/tmp')) >> 20)"
    ),
    "files without a name": ("print(sum(fill(os.open('/home', os.O_TMPFILE | os.O_WRONLY)) for n in range(20)) >> 20)"),
    "its environment": "print(fill(os.open('/opt/agent/a', os.O_CREAT | os.O_WRONLY)) >> 20)",
    "paths too deep to follow": (
        "os.chdir('/home')\n"
        "for n in range(300): os.mkdir('d' * 200); os.chdir('d' * 200)\n"
        "print(sum(fill(os.open(f'a{n}', os.O_CREAT | os.O_WRONLY)) for n in range(20)) >> 20)"
    ),
    "unreadable folders": (
        "os.mkdir('/home/x'); fd = os.open('/home/x', os.O_RDONLY); os.mkdir('a', dir_fd=fd)\n"
        "inner = os.open('/home/x/a', os.O_RDONLY); os.chmod('/home/x', 0)\n"
        "total = 0\n"
        "for n in range(20):\n"
        "    total += fill(os.open(f'{n}', os.O_CREAT | os.O_WRONLY, dir_fd=inner))\n"
        "print(total >> 20)"
    ),
    "space reserved ahead": (
        "total = 0\n"
        "for n in range(20):\n"
        "    try: os.posix_fallocate(os.open(f'/home/a{n}', os.O_CREAT | os.O_RDWR), 0, 32 << 20); total += 32\n"
        "    except OSError: pass\n"
        "print(total)"
    ),
}


@needs_root
@pytest.mark.parametrize("way", WAYS)
def test_an_agent_wants_more_space_by(way: str, module_runner: Runner) -> None:
    result = module_runner(
        f"{SUBMIT}; cat > /home/x.py <<'EOF'\n{WRITE}\n{WAYS[way]}\nEOF\npython3 /home/x.py", disk=LIMIT
    )
    assert result.execution.sandbox.disk == "loop"
    assert 0 < int(result.log.split()[-1]) <= LIMIT / MB * 1.1
    assert result.submission == SAMPLE


@needs_root
def test_an_agent_wants_all_inodes_of_the_machine(module_runner: Runner) -> None:
    code = "import os\nos.chdir('/tmp')\nn = 0\ntry:\n    while n < 50000: open(str(n), 'x').close(); n += 1\n"
    code += "except OSError: pass\nprint(n)\n"
    result = module_runner(f"{SUBMIT}; cat > /home/x.py <<'EOF'\n{code}\nEOF\npython3 /home/x.py", disk=LIMIT)
    assert int(result.log) < 5000
    assert result.submission == SAMPLE


@needs_root
def test_an_agent_wants_space_in_a_volume_of_its_dockerfile(docker_engine: None, tmp_path: Path) -> None:
    folder = tmp_path / "agents/volumes"
    folder.mkdir(parents=True)
    (folder / "start.sh").write_text(
        "head -c 300M /dev/zero | split -b 8M - /cache/x; du -sm /cache | cut -f1; test -f /cache/kept && echo kept\n"
    )
    (folder / "Dockerfile").write_text(
        f"FROM mlebench-env\nENV NONCE={uuid.uuid4().hex}\nCOPY . /home/agent\n"
        "RUN mkdir /cache && touch /cache/kept && chmod -R 777 /cache\nVOLUME /cache/\n"
    )
    agent = replace(script_agent(), folder=folder, start=folder / "start.sh", dockerfile=folder / "Dockerfile")
    client = docker.from_env()
    try:
        result = make_runner(docker_sandbox(), tmp_path)("", agent=agent, disk=LIMIT)
        *_, size, kept = result.log.split()
        assert int(size) <= LIMIT / MB * 1.1 and kept == "kept"
        with pytest.raises(SandboxError, match="declares VOLUME /cache"):
            make_runner(docker_sandbox(loop_disks=False), tmp_path / "other")("", agent=agent, disk=LIMIT)
    finally:
        for image in client.images.list("mlebench-agent-volumes"):
            client.images.remove(str(image.id), force=True)


@needs_root
def test_a_separate_disk_of_a_run_matches_the_image_and_is_removed_afterwards(module_runner: Runner) -> None:
    result = module_runner(
        "touch /home/x /tmp/x /opt/agent/x && echo writes; ls -ld /tmp | cut -c1-10; cp /bin/bash /tmp/b && "
        "chmod u+s /tmp/b; touch /x 2>/dev/null || echo root; hostname; python -c 'import sklearn'; echo $?",
        disk=LIMIT,
    )
    assert result.log.split() == ["writes", "drwxrwxrwt", "root", "sandbox", "0"]
    assert not list(Path("/var/tmp").glob(f"mlebench-disk-*-{os.getpid()}-*"))
    assert "mlebench-disk" not in "".join(
        line for line in Path("/proc/mounts").read_text().splitlines() if f"-{os.getpid()}-" in line
    )


@pytest.fixture(scope="module")
def watched(module_runner: Runner, tmp_path_factory: pytest.TempPathFactory) -> Runner:
    return make_runner(docker_sandbox(loop_disks=False), tmp_path_factory.mktemp("watched"))


@pytest.mark.parametrize("way", ["many files", "temporary files", "paths too deep to follow"])
def test_an_agent_wants_more_space_while_the_harness_measures_it_by(way: str, watched: Runner) -> None:
    slow = WAYS[way].replace("print(", "import time; print(") + "\ntime.sleep(60)\n"
    result = watched(f"{SUBMIT}; cat > /home/x.py <<'EOF'\n{WRITE}\n{slow}\nEOF\npython3 /home/x.py", disk=LIMIT)
    assert result.execution.sandbox.disk == "watched"
    assert (result.execution.ending, result.submission) == (Ending.CRASHED, SAMPLE)
    assert "disk full" in result.execution.detail


def test_an_agent_wants_sparse_files_to_fill_the_hosts_disk(watched: Runner) -> None:
    free = shutil.disk_usage(watched.folder).free
    result = watched(
        f"{SUBMIT}; cd $LOGS_DIR; for i in $(seq 20); do truncate -s 48M sparse-$i; done; "
        "cd $CODE_DIR; for i in $(seq 20); do truncate -s 48M sparse-$i; done",
        disk=LIMIT,
    )
    assert result.submission == SAMPLE
    collected = sum(path.stat().st_size for path in result.run_dir.rglob("*") if path.is_file())
    assert collected <= LIMIT * 1.1
    assert free - shutil.disk_usage(watched.folder).free < 4 * LIMIT


FREE_SPACE = (
    *("sandbox.docker.sandbox.free_space", "sandbox.docker.container.free_space"),
    "extras.apptainer.sandbox.free_bytes",
)


def test_an_agent_without_a_limit_wants_to_fill_the_disk_of_all_runs(
    docker_engine: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = 4 * MB
    for name in FREE_SPACE:
        monkeypatch.setattr(f"pytest_mlebench.{name}", lambda _: left)
    run = make_runner(docker_sandbox(), tmp_path)
    write = SUBMIT + "; head -c {} /dev/zero > /home/x; sleep {}"
    greedy = run(write.format(100 * MB, 300), time_limit=200)
    assert greedy.execution.ending is Ending.CRASHED
    assert f"and only {format_size(left)} are left for all runs; --disk sets a limit" in greedy.execution.detail
    assert greedy.submission == SAMPLE
    modest = run(write.format(50 * MB, 2))  # this run did not fill the disk
    assert (modest.execution.ending, modest.execution.detail) == (Ending.FINISHED, "")


def test_an_agent_fills_the_disk_in_a_way_that_is_not_measured(
    docker_engine: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def free(_: object) -> int:
        logs = [path.read_text() for path in tmp_path.rglob("run.log")]
        return 300 * MB if any("ready" in log for log in logs) else 4096 * MB

    for name in FREE_SPACE:
        monkeypatch.setattr(f"pytest_mlebench.{name}", free)
    run = make_runner(docker_sandbox(), tmp_path)
    hidden = run(SUBMIT + "; exec 3> /home/x; rm /home/x; head -c 10M /dev/zero >&3; echo ready; sleep 300")
    assert hidden.execution.ending is Ending.CRASHED
    assert "only 300 MiB of the disk are left" in hidden.execution.detail
    assert hidden.submission == SAMPLE


def test_an_agent_without_a_limit_wants_more_than_its_share_of_the_disk(
    docker_engine: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The default on any storage driver: here, two runs share the free space."""
    monkeypatch.setattr("pytest_mlebench.sandbox.limits._NEARLY_FULL", 40 * MB)
    for name in FREE_SPACE:
        monkeypatch.setattr(f"pytest_mlebench.{name}", lambda _: 39 * MB)
    run = make_runner(docker_sandbox.__wrapped__(), tmp_path)
    write = SUBMIT + "; head -c {} /dev/zero > /home/x; sleep {}"
    greedy = run(write.format(100 * MB, 300), time_limit=200)
    assert greedy.execution.ending is Ending.CRASHED
    assert "and its share of the disk is 40 MiB; --disk sets a limit" in greedy.execution.detail
    assert greedy.submission == SAMPLE
    modest = run(write.format(20 * MB, 2))
    assert (modest.execution.ending, modest.execution.detail) == (Ending.FINISHED, "")
