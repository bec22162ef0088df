"""Requirements of the Docker sandbox, the confinement of its containers, and its errors."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import replace
from pathlib import Path

import docker
import docker.errors
import pytest

from pytest_mlebench.errors import SandboxError
from pytest_mlebench.sandbox.docker.client import ACCEPT_PRIVILEGED, connect
from pytest_mlebench.sandbox.docker.sandbox import DockerSandbox
from tests.sandbox.scripted import MB, Runner, docker_sandbox, script_agent

pytestmark = [pytest.mark.docker, pytest.mark.serial]


def test_a_container_has_the_limits_of_the_run(run_in_container: Runner) -> None:
    result = run_in_container(
        "cd /sys/fs/cgroup; cat memory.max memory/memory.limit_in_bytes 2>/dev/null; "
        "cat pids.max pids/pids.max 2>/dev/null; df -B1 --output=size /dev/shm | tail -1; ulimit -c; ulimit -f",
        memory=256 * MB,
        processes=77,
        disk=100 * MB,
    )
    assert result.log.split() == [str(256 * MB), "77", str(1 << 30), "0", str(100 * MB // 1024)]


def test_containers_have_labels_of_their_owner(run_in_container: Runner) -> None:
    result = run_in_container("true", keep=True)
    container = docker.from_env().containers.get(result.execution.sandbox.container)
    try:
        labels = {key: value for key, value in container.labels.items() if key.startswith("mlebench.")}
        assert (
            labels.items()
            >= {
                "mlebench.run-group": "tests",
                "mlebench.run-id": "toy_1",
                "mlebench.worker": "gw0",
                "mlebench.pid": str(os.getpid()),
            }.items()
        )
        host = container.attrs["HostConfig"]
        assert host["NetworkMode"] == "none"
        assert host["CapDrop"] == ["ALL"]
        assert host["SecurityOpt"][0] == "no-new-privileges"
        assert host["SecurityOpt"][1].startswith("seccomp={")
        assert not host["Privileged"]
        assert host["LogConfig"]["Type"] == "none"  # the engine stores no second copy of the output
        mounts = {mount["Destination"]: mount for mount in container.attrs["Mounts"]}
        assert all(not mount["RW"] for mount in mounts.values() if mount["Type"] == "bind")
        volumes = {name for name, mount in mounts.items() if mount["Type"] == "volume"}
        assert volumes == {"/home/data", "/dev/pts"}  # the data's file system is read-only
        assert host["Memory"] == host["MemorySwap"] == 512 * MB  # no swap
    finally:
        container.remove(v=True)


def test_a_kept_container_can_be_inspected_afterwards(run_in_container: Runner) -> None:
    result = run_in_container("echo remember > /home/note", keep=True)
    client = docker.from_env()
    container = client.containers.get(result.execution.sandbox.kept.removeprefix("container "))
    try:
        assert container.status == "exited"
        assert any(path["Path"] == "/home/note" for path in container.diff())
    finally:
        container.remove(v=True)


def test_a_privileged_agent_needs_permission(docker_engine: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ACCEPT_PRIVILEGED, raising=False)
    agent = replace(script_agent(), privileged=True)
    with pytest.raises(SandboxError, match="--allow-privileged"):
        DockerSandbox().check(agent)
    DockerSandbox(allow_privileged=True).check(agent)
    monkeypatch.setenv(ACCEPT_PRIVILEGED, "true")
    DockerSandbox().check(agent)


def test_a_privileged_agent_without_permission_does_not_run(run_in_container: Runner) -> None:
    with pytest.raises(SandboxError, match="privileged"):
        run_in_container("true", agent=replace(script_agent(), privileged=True))
    assert not (run_in_container.folder / "run-1").exists()


def test_an_allowed_privileged_agent_still_runs_as_nonroot(docker_engine: None, run_in_container: Runner) -> None:
    image = run_in_container.sandbox.images.environment()  # type: ignore[attr-defined]
    plain = docker.from_env().containers.create(image, [], entrypoint="true", privileged=True)
    try:
        plain.start()
    except docker.errors.APIError as error:
        pytest.skip(f"this engine starts no privileged container: {error.explanation}")
    finally:
        plain.remove(force=True)
    run_in_container.sandbox = docker_sandbox(allow_privileged=True)
    result = run_in_container(
        "id -un; test -e /dev/kmsg && echo devices", agent=replace(script_agent(), privileged=True)
    )
    assert result.log.split() == ["nonroot", "devices"]
    assert result.execution.sandbox.privileged is True


def test_an_unknown_runtime_is_an_error_that_lists_known_ones(docker_engine: None) -> None:
    with pytest.raises(SandboxError, match=r"no runtime sysbox-runc, only .*runc"):
        DockerSandbox(runtime="sysbox-runc").check(script_agent())


def test_a_runtime_can_be_chosen(docker_engine: None, run_in_container: Runner) -> None:
    run_in_container.sandbox = docker_sandbox(runtime="runc")
    assert run_in_container("true").execution.sandbox.runtime == "runc"


def test_a_missing_engine_is_an_error_that_explains_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nothing.sock")
    with pytest.raises(SandboxError, match=r"Docker does not answer.*--sandbox=local"):
        connect()


def test_data_that_an_agent_cannot_read_is_an_error(run_in_container: Runner) -> None:
    run_in_container.public.chmod(0o700)
    with pytest.raises(SandboxError, match="chmod"):
        run_in_container("true")


def test_missing_data_is_an_error(run_in_container: Runner, tmp_path: Path) -> None:
    run_in_container.public = tmp_path / "nothing"
    with pytest.raises(SandboxError, match="not a folder"):
        run_in_container("true")


def test_an_image_whose_first_process_does_not_start_is_an_error_and_leaves_nothing(
    run_in_container: Runner, tmp_path: Path
) -> None:
    folder = tmp_path / "agents/broken-init"
    folder.mkdir(parents=True)
    (folder / "start.sh").write_text("true\n")
    (folder / "Dockerfile").write_text("FROM mlebench-env\nRUN printf '#!/bin/sh\\necho no way' > /usr/bin/python3\n")
    agent = replace(script_agent(), folder=folder, start=folder / "start.sh", dockerfile=folder / "Dockerfile")
    with pytest.raises(SandboxError, match="no way"):
        run_in_container("true", agent=agent)
    client = docker.from_env()
    assert not client.containers.list(all=True, filters={"label": f"mlebench.pid={os.getpid()}"})
    for image in client.images.list("mlebench-agent-broken-init"):
        client.images.remove(str(image.id), force=True)


@pytest.mark.parametrize("how", ["kill", "remove"])
def test_a_container_stopped_from_outside_is_an_error_and_not_an_outcome(run_in_container: Runner, how: str) -> None:
    task = run_in_container.task("echo ready; sleep 600")

    def stop() -> None:
        log = task.run_dir / "run.log"
        while not (log.exists() and log.read_text()):
            time.sleep(0.05)
        for container in docker.from_env().containers.list(filters={"label": f"mlebench.pid={os.getpid()}"}):
            container.kill() if how == "kill" else container.remove(force=True)

    threading.Thread(target=stop, daemon=True).start()
    with pytest.raises(SandboxError, match="container"):
        run_in_container.sandbox.run(task)
    assert (task.run_dir / "run.log").read_text() == "ready\n"
