"""GPU leases. The machine need not have a GPU: a fake `nvidia-smi` on the PATH shows two; the locks are real."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from pytest_mlebench.errors import SandboxError
from pytest_mlebench.progress import Event, Note
from pytest_mlebench.sandbox import gpu_usage
from pytest_mlebench.sandbox.contract import Limits
from pytest_mlebench.sandbox.gpus import Gpu, GpuPool, detect
from tests.sandbox.scripted import MB


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


MIG = """GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-aaaa)
  MIG 1g.5gb      Device  0: (UUID: MIG-1111)
  MIG 3g.20gb     Device  1: (UUID: MIG-2222)
GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-bbbb)
"""


@pytest.fixture
def mig(two_gpus: Path) -> Path:
    """The stand-in of `nvidia-smi` shows one GPU with two MIG instances, and one as a whole."""
    program = two_gpus.parent / "bin/nvidia-smi"
    listed = program.read_text().removeprefix("#!/bin/sh\n")
    program.write_text(f'#!/bin/sh\nif [ "$1" = -L ]; then cat <<"END"\n{MIG}END\nelse {listed}fi\n')
    return two_gpus


def test_mig_instances_are_leased_in_place_of_their_gpu(mig: Path) -> None:
    assert [gpu.uuid for gpu in detect()] == ["MIG-1111", "MIG-2222", "GPU-bbbb"]
    with GpuPool(folder=mig).lease(2) as first, GpuPool(folder=mig).lease(1) as second:
        assert {gpu.uuid for gpu in (*first, *second)} == {"MIG-1111", "MIG-2222", "GPU-bbbb"}


@pytest.mark.parametrize("ids, chosen", [(["GPU-aaaa"], 2), (["0"], 2), (["MIG-2222"], 1), (["1", "MIG-1111"], 2)])
def test_ids_choose_instances_or_all_those_of_a_gpu(ids: list[str], chosen: int, mig: Path) -> None:
    assert len(GpuPool(ids, folder=mig).available()) == chosen


def test_the_record_has_what_a_runs_gpus_did(two_gpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counter = two_gpus.parent / "counter"
    program = two_gpus.parent / "bin/nvidia-smi"
    program.write_text(
        f"""#!/bin/sh
echo >> {counter}
case $(wc -l < {counter}) in
1) echo "GPU-aaaa, 10, 1000" ;;
2) echo "GPU-aaaa, 70, 3000" ;;
3) echo "GPU-aaaa, [N/A], 2000" ;;
*) echo "No devices were found"; exit 6 ;;
esac
"""
    )
    monkeypatch.setattr(gpu_usage, "_FIRST_SECONDS", 0.05)
    monkeypatch.setattr(gpu_usage, "_INTERVAL_SECONDS", 0.05)
    with gpu_usage.GpuUsage([Gpu(0, "GPU-aaaa", "Test GPU")]) as usage:
        deadline = time.monotonic() + 60
        while not counter.exists() or len(counter.read_text()) < 4:
            assert time.monotonic() < deadline
            time.sleep(0.02)
    assert usage.summary == {
        "GPU-aaaa": {
            "samples": 3,
            "utilization_mean": 40.0,
            "utilization_peak": 70.0,
            "memory_mean": 2000.0 * MB,
            "memory_peak": 3000.0 * MB,
        }
    }
    assert gpu_usage.GpuUsage([]).summary == {}


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


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_a_lock_that_another_user_made_is_respected_and_can_be_taken(
    two_gpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        Path(folder).chmod(0o1777)
        _see_another_users_lock(Path(folder), monkeypatch)


def _see_another_users_lock(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another user, who has a lock and then dies; the kernel then refuses O_CREAT, here or not (protected_regular)."""
    lock = folder / "GPU-aaaa.lock"
    lock.touch()
    lock.chmod(0o666)
    os.chown(lock, 65534, 65534)
    really_open = os.open

    def protected(path: Any, flags: int, *mode: int, **options: Any) -> int:
        if flags & os.O_CREAT and not flags & os.O_EXCL and Path(path).exists():
            raise PermissionError(13, "Permission denied", str(path))
        return really_open(path, flags, *mode, **options)

    monkeypatch.setattr(os, "open", protected)
    other = subprocess.Popen(
        ["flock", lock, "sh", "-c", "echo held; exec sleep 600"], user=65534, stdout=subprocess.PIPE
    )
    with other:
        assert other.stdout is not None and other.stdout.readline() == b"held\n"
        with GpuPool(folder=folder).free() as gpus:
            assert [gpu.uuid for gpu in gpus] == ["GPU-bbbb"]
        subprocess.run(["pkill", "-KILL", "-P", str(other.pid)], check=True)
        other.kill()
    with GpuPool(folder=folder).lease(2) as gpus:
        assert len(gpus) == 2


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


@pytest.mark.docker
def test_an_agent_does_not_start_where_the_container_lacks_its_gpu(
    docker_engine: None, two_gpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An engine that ignores what it is asked for, as some do, with a stand-in for this machine's `nvidia-smi`."""
    from pytest_mlebench.sandbox.docker.engine import Engine
    from pytest_mlebench.sandbox.docker.sandbox import DockerSandbox
    from tests.sandbox.scripted import make_runner

    create = Engine.create

    def careless(self: Engine, image: str, name: str, labels: Any, settings: dict[str, Any]) -> None:
        assert settings.pop("device_requests")
        create(self, image, name, labels, settings)

    monkeypatch.setattr(Engine, "create", careless)
    monkeypatch.setenv("MLEBENCH_GPU_LOCKS", str(two_gpus))
    run = make_runner(DockerSandbox(), tmp_path)
    with pytest.raises(SandboxError, match=r"sees only 0 of the run's 2 GPUs .*so the agent was not started: install"):
        run("echo started", gpus=2)
    assert (tmp_path / "run-1/run.log").read_text() == ""
