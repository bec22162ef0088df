"""GPU leases. The machine need not have a GPU: a fake `nvidia-smi` on the PATH shows two; the locks are real."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from pytest_mlebench.errors import SandboxError
from pytest_mlebench.progress import Event, Note
from pytest_mlebench.sandbox.contract import Limits
from pytest_mlebench.sandbox.gpus import GpuPool, detect


@pytest.fixture
def two_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    program = tmp_path / "bin/nvidia-smi"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\nprintf "0, GPU-aaaa, Test GPU, 80 GB\\n1, GPU-bbbb, Test GPU\\n"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    return tmp_path / "locks"


def test_gpus_are_what_the_driver_shows(two_gpus: Path) -> None:
    assert [(gpu.index, gpu.uuid) for gpu in detect()] == [(0, "GPU-aaaa"), (1, "GPU-bbbb")]


def test_no_driver_is_no_gpu_and_an_error_only_where_one_is_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    pool = GpuPool(folder=tmp_path / "locks")
    assert detect() == []
    with pool.lease(0) as gpus:
        assert gpus == []
    with pytest.raises(SandboxError, match="nvidia-smi shows none"):
        pool.check(1)


def test_a_broken_driver_is_no_gpu(two_gpus: Path) -> None:
    (two_gpus.parent / "bin/nvidia-smi").write_text("#!/bin/sh\necho 'NVIDIA-SMI has failed'\nexit 9\n")
    assert detect() == []


def test_more_than_there_are_is_an_error_up_front(two_gpus: Path) -> None:
    with pytest.raises(SandboxError, match="only 2"):
        GpuPool(folder=two_gpus).check(3)


def test_ids_restrict_by_index_or_uuid(two_gpus: Path) -> None:
    for ids in (["1"], ["GPU-bbbb"]):
        with GpuPool(ids, folder=two_gpus).lease(1) as gpus:
            assert [gpu.index for gpu in gpus] == [1]
    with pytest.raises(SandboxError, match="no GPU 7"):
        GpuPool(["0", "7"], folder=two_gpus).check(1)
    with pytest.raises(SandboxError, match="only 1"):
        GpuPool(["0"], folder=two_gpus).check(2)


def test_two_leases_never_share_a_gpu(two_gpus: Path) -> None:
    with GpuPool(folder=two_gpus).lease(1) as first, GpuPool(folder=two_gpus).lease(1) as second:
        assert {gpu.uuid for gpu in (*first, *second)} == {"GPU-aaaa", "GPU-bbbb"}


def _use(folder: Path, number: int, log: Path, rounds: int) -> None:
    for _ in range(rounds):
        with GpuPool(folder=folder).lease(number) as gpus:
            for gpu in gpus:
                (log / gpu.uuid).touch(exist_ok=False)  # fails if somebody else uses it
            time.sleep(0.02)
            for gpu in gpus:
                (log / gpu.uuid).unlink()


def test_processes_that_want_one_or_two_never_meet_and_never_deadlock(two_gpus: Path, tmp_path: Path) -> None:
    log = tmp_path / "in-use"
    log.mkdir()
    context = multiprocessing.get_context("spawn")
    users = [context.Process(target=_use, args=(two_gpus, number, log, 3)) for number in (1, 2, 1)]
    for user in users:
        user.start()
    for user in users:
        user.join(60)
    assert [user.exitcode for user in users] == [0, 0, 0]


def test_who_waits_says_so_once_and_gets_it_when_it_is_free(two_gpus: Path) -> None:
    events: list[Event] = []
    got = threading.Event()

    def wait() -> None:
        with GpuPool(folder=two_gpus).lease(2, events.append):
            got.set()

    with GpuPool(["0"], folder=two_gpus).lease(1):
        thread = threading.Thread(target=wait)
        thread.start()
        assert not got.wait(2)
    thread.join(20)
    assert got.is_set()
    assert events == [Note("waiting for 2 of 2 GPUs: other runs use them")]


def test_a_lease_is_freed_when_its_holder_dies(two_gpus: Path) -> None:
    code = (
        "import sys, time; from pathlib import Path; from pytest_mlebench.sandbox.gpus import GpuPool\n"
        f"with GpuPool(folder=Path({str(two_gpus)!r})).lease(2): print('held', flush=True); time.sleep(600)"
    )
    holder = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None and holder.stdout.readline() == "held\n"
    pool = GpuPool(folder=two_gpus)
    assert pool._take(pool.available(), 1) == []
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    with pool.lease(2) as gpus:
        assert len(gpus) == 2
    holder.stdout.close()


def test_a_lease_does_not_pass_to_programs_that_its_holder_starts(two_gpus: Path) -> None:
    with GpuPool(folder=two_gpus).lease(2):
        child = subprocess.Popen(["sleep", "600"], close_fds=False)
    try:
        with GpuPool(folder=two_gpus).lease(2) as gpus:
            assert len(gpus) == 2
    finally:
        child.kill()
        child.wait()


def test_locks_can_be_taken_by_every_user_of_the_machine(two_gpus: Path) -> None:
    previous = os.umask(0o077)
    try:
        with GpuPool(folder=two_gpus).lease(2):
            pass
    finally:
        os.umask(previous)
    assert two_gpus.stat().st_mode & 0o7777 == 0o1777
    assert {path.stat().st_mode & 0o666 for path in two_gpus.iterdir()} == {0o666}


def test_a_container_is_given_exactly_its_gpus(two_gpus: Path, tmp_path: Path) -> None:
    from pytest_mlebench.sandbox.docker.container import configuration

    with GpuPool(["1"], folder=two_gpus).lease(1) as gpus:
        settings = configuration(
            Limits(gpus=1),
            public=tmp_path,
            sockets=tmp_path,
            network_mode="none",
            gpus=gpus,
            runtime=None,
            privileged=False,
            shm_bytes=1,
        )
    (request,) = settings["device_requests"]
    assert request["DeviceIDs"] == ["GPU-bbbb"]
    assert request["Capabilities"] == [["gpu"]]


@pytest.mark.docker
def test_a_machine_without_gpus_is_an_error_before_the_first_run(
    docker_engine: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pytest_mlebench.sandbox.docker.sandbox import DockerSandbox
    from tests.sandbox.scripted import script_agent

    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SandboxError, match="nvidia-smi shows none"):
        DockerSandbox(gpus=1).check(script_agent())
