"""Podman: the service of a session, and differences from Docker's containers. CI runs the core of the contract on it.

``MLEBENCH_TEST_ENGINE=podman`` runs all tests of containers on Podman instead of Docker.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from pytest_mlebench.errors import SandboxError
from pytest_mlebench.sandbox import Ending
from pytest_mlebench.sandbox.docker.podman import open_client
from pytest_mlebench.sandbox.docker.sandbox import DockerSandbox
from pytest_mlebench.sandbox.dockerfile import BASE_IMAGE
from pytest_mlebench.sandbox.gpus import GpuPool
from tests.left import left
from tests.sandbox.scripted import MB, SAMPLE, SUBMIT, VALID, Runner, make_runner


@pytest.fixture
def podman(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CONTAINER_HOST", raising=False)
    if shutil.which("podman") is None:
        if os.environ.get("MLEBENCH_REQUIRE_PODMAN"):
            pytest.fail("this test needs Podman")
        pytest.skip("Podman is not installed")


@pytest.fixture
def run(podman: None, tmp_path: Path) -> Iterator[Runner]:
    with closing(open_client("podman")) as engine:
        if not engine.client.images.list(name=BASE_IMAGE):
            pytest.skip(f"Podman has no image {BASE_IMAGE}: podman pull {BASE_IMAGE}")
    sandbox = DockerSandbox(engine="podman", allow_unenforced_limits=True, reporter=print)
    yield make_runner(sandbox, tmp_path)
    sandbox.close()


@pytest.mark.full
@pytest.mark.serial
def test_agents_run_in_containers_of_podman(run: Runner) -> None:
    """The core of the contract (``test_contract``) in one test, because Podman is slow to start."""
    result = run(
        f'{SUBMIT}; bash "$(dirname "$SUBMISSION_DIR")/validate_submission.sh" "$SUBMISSION_DIR/submission.csv"; '
        "id -un; grep -c . /proc/net/dev; grep -E 'CapEff|NoNewPrivs|Seccomp:' /proc/self/status; "
        'touch "$DATA_DIR/new"; rmdir "$LOGS_DIR" && ln -s /etc "$LOGS_DIR"; echo code > "$CODE_DIR/main.py"'
    )
    execution = result.execution
    assert (execution.ending, execution.sandbox.name) == (Ending.FINISHED, "podman")
    assert result.submission == SAMPLE
    assert VALID in result.log and "nonroot\n3\n" in result.log and "Permission denied" in result.log
    confined = [line.split() for line in result.log.splitlines() if line.startswith(("Cap", "NoNew", "Seccomp"))]
    assert confined == [["CapEff:", "0000000000000000"], ["NoNewPrivs:", "1"], ["Seccomp:", "2"]]
    assert left(result.run_dir) == {"code/main.py": b"code\n"}  # archives of Podman follow links

    assert run(f"{SUBMIT}; sleep 600", time_limit=3).execution.ending == Ending.TIMED_OUT
    if "memory" not in "".join(execution.sandbox.notes):
        full = run(f"{SUBMIT}; exec python3 -c 'x = []\nwhile True: x.append(bytearray(1 << 24))'", memory=200 * MB)
        assert (full.execution.ending, full.submission) == (Ending.OUT_OF_MEMORY, SAMPLE)


@pytest.mark.full
def test_a_service_that_we_started_ends_even_with_a_killed_session(podman: None) -> None:
    """If a service is already running, we start none, except for a custom runtime, which always needs one."""
    runtime = shutil.which("runc") or shutil.which("crun")
    code = (
        "import sys, time; from pytest_mlebench.sandbox.docker.podman import open_client\n"
        f"engine = open_client('podman', {runtime!r}); print(engine.host, flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as session:
        assert session.stdout is not None
        host = session.stdout.readline().strip()
        session.send_signal(signal.SIGKILL)
    if "mlebench-podman-" not in host:
        pytest.skip(f"Podman's service listens at {host} already")
    deadline = time.monotonic() + 60
    while _runs(host):
        assert time.monotonic() < deadline
        time.sleep(0.2)


def _runs(host: str) -> bool:
    commands = (path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists())
    return any(host.encode() in command for command in commands)


def test_a_machine_without_podman_gives_a_one_line_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("CONTAINER_HOST", f"unix://{tmp_path}/podman.sock")
    with pytest.raises(SandboxError, match=r"^no Podman service answers at unix://.*No such file or directory$"):
        open_client("podman")
    monkeypatch.setenv("CONTAINER_HOST", "ssh://core@example.com/run/podman/podman.sock")
    with pytest.raises(SandboxError, match="on another machine"):
        open_client("podman")


@pytest.mark.full
@pytest.mark.serial
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can define devices")
def test_gpus_are_passed_by_their_container_device_interface_names(
    run: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`nvidia-smi` is fake, here and in the container, because there is no GPU; the interface is real."""
    program = tmp_path / "bin/nvidia-smi"
    program.parent.mkdir()
    program.write_text(
        '#!/bin/sh\n[ "$1" = -L ] && echo "GPU 0: Stand-in (UUID: GPU-aaaa)" || echo "0, GPU-aaaa, Stand-in"\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("MLEBENCH_GPU_LOCKS", str(tmp_path / "locks"))
    monkeypatch.setattr(run.sandbox, "_gpu_pool", GpuPool())
    mount = {"hostPath": str(program), "containerPath": "/usr/bin/nvidia-smi", "options": ["ro", "bind"]}
    device = {"name": "GPU-aaaa", "containerEdits": {"mounts": [mount]}}
    folder = Path("/etc/cdi")
    folder.mkdir(exist_ok=True)
    specification = folder / f"mlebench-test-{os.getpid()}.json"
    with pytest.raises(SandboxError, match=r"nvidia\.com/gpu=GPU-aaaa"):
        run("true", gpus=1)
    try:
        specification.write_text(json.dumps({"cdiVersion": "0.5.0", "kind": "nvidia.com/gpu", "devices": [device]}))
        result = run("nvidia-smi -L; sleep 2", gpus=1)
        device["containerEdits"] = {"env": ["GPU=none"]}
        specification.write_text(json.dumps({"cdiVersion": "0.5.0", "kind": "nvidia.com/gpu", "devices": [device]}))
        with pytest.raises(SandboxError, match=r"sees only 0 of the run's 1 GPU \(GPU-aaaa\), so the agent was not"):
            run("echo started", gpus=1)
    finally:
        specification.unlink(missing_ok=True)
    assert result.log == "GPU 0: Stand-in (UUID: GPU-aaaa)\n"
    assert result.execution.sandbox.gpus == ("GPU-aaaa",)
    assert not (tmp_path / "run-3/run.log").read_text()
