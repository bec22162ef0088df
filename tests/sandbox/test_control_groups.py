"""Memory limits and kills in control groups: real ones of this machine, and fake ones of the other version."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_mlebench.sandbox.limits import delegated, memory_limit, oom_events, oom_kills

REAL = Path("/sys/fs/cgroup/memory")
MB = 1 << 20


@pytest.mark.skipif(os.geteuid() != 0 or not os.access(REAL, os.W_OK), reason="makes a control group of version 1")
def test_a_process_killed_for_memory_is_counted_in_its_group() -> None:
    group = REAL / f"mlebench-test-{os.getpid()}"
    group.mkdir()
    code = "import sys; input(); x = bytearray(200 << 20); print(len(x))"
    process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    try:
        (group / "memory.limit_in_bytes").write_text(str(64 * MB))
        (group / "cgroup.procs").write_text(str(process.pid))
        events = oom_events(process.pid)
        assert events == group / "memory.oom_control" and oom_kills(events) == 0
        assert memory_limit(process.pid) == 64 * MB
        process.communicate(b"\n")
        assert oom_kills(events) == 1
    finally:
        process.kill()
        process.wait()
        group.rmdir()


def in_group(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fakes this version 2 group for all processes, because this machine may have version 1."""
    read = Path.read_text

    def read_text(path: Path, **options: str) -> str:
        return f"0::{name}\n" if path.name == "cgroup" else read(path, **options)

    monkeypatch.setattr(Path, "read_text", read_text)


def group_of_version_2(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *limits: str) -> Path:
    """Fake folders: a job's group with the group of its step."""
    (tmp_path / "cgroup.controllers").touch()
    folder = tmp_path
    for name, limit in zip(("job", "step"), limits, strict=True):
        folder /= name
        folder.mkdir()
        (folder / "memory.max").write_text(f"{limit}\n")
        (folder / "memory.events").write_text("low 0\noom 2\noom_kill 3\n")
    in_group("/job/step", monkeypatch)
    return folder


@pytest.mark.parametrize(
    ("limits", "least"), [(("2048", "max"), 2048), (("2048", "1024"), 1024), (("max", "max"), None)]
)
def test_the_lowest_limit_of_a_processs_groups_counts(
    limits: tuple[str, str], least: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = group_of_version_2(tmp_path, monkeypatch, *limits)
    assert memory_limit(1, tmp_path) == least
    events = oom_events(1, tmp_path)
    assert events == folder / "memory.events" and oom_kills(events) == 3


UID = os.getuid()
SESSION = f"/user.slice/user-{UID}.slice/session-3.scope"


@pytest.mark.parametrize(
    ("group", "controllers", "expected"),
    [
        (SESSION, "cpuset cpu io memory pids", True),
        (SESSION, "memory pids", False),
        ("/system.slice/slurmstepd.scope/job_1/step_0/user/task_0", "cpu memory pids", False),
        (f"/user.slice/user-{UID}1.slice/session-3.scope", "cpu memory pids", False),
    ],
)
def test_only_a_login_session_has_groups_delegated_by_systemd(
    group: str, controllers: str, expected: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Uses fake folders. A job must not leave the group of its batch system."""
    assert not delegated(tmp_path)
    service = tmp_path / f"user.slice/user-{UID}.slice/user@{UID}.service"
    service.mkdir(parents=True)
    (service / "cgroup.controllers").write_text(f"{controllers}\n")
    in_group(group, monkeypatch)
    assert delegated(tmp_path) is expected
