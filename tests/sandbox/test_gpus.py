"""GPU leases. The machine need not have a GPU: a fake `nvidia-smi` on the PATH shows two; the locks are real."""

from __future__ import annotations

import fcntl
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from pytest_mlebench.errors import SandboxError
from pytest_mlebench.io.progress import Event, Note
from pytest_mlebench.records.outcome import Limits
from pytest_mlebench.sandbox.gpus import Gpu, GpuPool, GpuUsage, detect
from tests.sandbox.scripted import MB


@pytest.fixture
def two_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    program = tmp_path / "bin/nvidia-smi"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\nprintf "0, GPU-aaaa, Test GPU, 80 GB\\n1, GPU-bbbb, Test GPU\\n"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    return tmp_path / "locks"


def test_gpus_are_read_from_the_driver(two_gpus: Path) -> None:
    assert [(gpu.index, gpu.uuid) for gpu in detect()] == [(0, "GPU-aaaa"), (1, "GPU-bbbb")]


def test_without_a_driver_there_are_no_gpus_and_requesting_one_is_an_error(
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
    """The fake `nvidia-smi` shows one GPU with two MIG instances, and one whole GPU."""
    program = two_gpus.parent / "bin/nvidia-smi"
    listed = program.read_text().removeprefix("#!/bin/sh\n")
    program.write_text(f'#!/bin/sh\nif [ "$1" = -L ]; then cat <<"END"\n{MIG}END\nelse {listed}fi\n')
    return two_gpus


def test_mig_instances_are_leased_instead_of_their_gpu(mig: Path) -> None:
    assert [gpu.uuid for gpu in detect()] == ["MIG-1111", "MIG-2222", "GPU-bbbb"]
    with GpuPool(folder=mig).lease(2) as first, GpuPool(folder=mig).lease(1) as second:
        assert {gpu.uuid for gpu in (*first, *second)} == {"MIG-1111", "MIG-2222", "GPU-bbbb"}


@pytest.mark.parametrize("ids, chosen", [(["GPU-aaaa"], 2), (["0"], 2), (["MIG-2222"], 1), (["1", "MIG-1111"], 2)])
def test_ids_choose_instances_or_all_those_of_a_gpu(ids: list[str], chosen: int, mig: Path) -> None:
    assert len(GpuPool(ids, folder=mig).available()) == chosen


def test_the_record_contains_the_gpu_usage_of_a_run(two_gpus: Path) -> None:
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
    with GpuUsage([Gpu(0, "GPU-aaaa", "Test GPU")], first_seconds=0.05, interval_seconds=0.05) as usage:
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
    assert GpuUsage([]).summary == {}


def test_a_broken_driver_counts_as_no_gpu(two_gpus: Path) -> None:
    (two_gpus.parent / "bin/nvidia-smi").write_text("#!/bin/sh\necho 'NVIDIA-SMI has failed'\nexit 9\n")
    assert detect() == []


def test_requesting_more_gpus_than_exist_is_an_early_error(two_gpus: Path) -> None:
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
                (log / gpu.uuid).touch(exist_ok=False)  # fails if another process uses it
            time.sleep(0.02)
            for gpu in gpus:
                (log / gpu.uuid).unlink()


def test_concurrent_leases_of_one_or_two_gpus_never_overlap_or_deadlock(two_gpus: Path, tmp_path: Path) -> None:
    log = tmp_path / "in-use"
    log.mkdir()
    context = multiprocessing.get_context("spawn")
    users = [context.Process(target=_use, args=(two_gpus, number, log, 3)) for number in (1, 2, 1)]
    for user in users:
        user.start()
    for user in users:
        user.join(60)
    assert [user.exitcode for user in users] == [0, 0, 0]


def test_a_waiting_lease_is_reported_once_and_granted_when_a_gpu_is_free(two_gpus: Path) -> None:
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
    with pool.free() as gpus:
        assert gpus == []
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


as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can switch users")
LEASE = """
import os, sys
from pathlib import Path
from pytest_mlebench.errors import SandboxError
from pytest_mlebench.sandbox.gpus import GpuPool

os.umask(0o077)
os.setgid(int(sys.argv[2]))
os.setuid(int(sys.argv[2]))
try:
    with GpuPool(folder=Path(sys.argv[1])).free() as gpus:
        print(*(gpu.uuid for gpu in gpus), flush=True)
        sys.stdin.read()
except SandboxError as error:
    print(error, flush=True)
"""


class User:
    """A process of another user that holds all free GPUs."""

    def __init__(self, folder: Path, uid: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", LEASE, folder, str(uid)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        self.said = self._process.stdout.readline().strip()

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()


@pytest.fixture
def users(two_gpus: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Path, Callable[[int], User]]]:
    """A function that starts users with a folder they can all access, which has no locks yet."""
    started: list[User] = []

    def start(uid: int) -> User:
        started.append(User(folder / "locks", uid))
        return started[-1]

    with tempfile.TemporaryDirectory(dir="/var/tmp") as path:
        folder = Path(path)
        folder.chmod(0o1777)
        shutil.copytree(two_gpus.parent / "bin", folder / "bin")
        monkeypatch.setenv("PATH", f"{folder}/bin{os.pathsep}{os.environ['PATH']}")
        yield folder / "locks", start
        for user in started:
            user.kill()


@as_root
def test_users_of_a_machine_share_its_gpus_and_leases_of_dead_processes_are_freed(
    users: tuple[Path, Callable[[int], User]],
) -> None:
    folder, start = users
    ada = start(60001)
    assert ada.said == "GPU-aaaa GPU-bbbb"
    assert folder.stat().st_uid == 60001 and folder.stat().st_mode & 0o7777 == 0o1777
    assert start(60002).said == ""
    ada.kill()
    grace = start(60002)
    assert grace.said == "GPU-aaaa GPU-bbbb"
    with GpuPool(folder=folder).free() as gpus:
        assert gpus == []
    grace.kill()
    with GpuPool(folder=folder).lease(2) as gpus:
        assert len(gpus) == 2
    assert {path.name for path in folder.iterdir()} == {"GPU-aaaa.lock", "GPU-bbbb.lock"}


def test_no_lock_is_opened_in_a_way_that_kernels_reject_in_shared_folders(
    two_gpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That is, O_CREAT on a file of another user (``fs.protected_regular``, which not every machine enables)."""
    really_open, flags_of = os.open, dict[str, list[int]]()

    def noted(path: Any, flags: int, *mode: int, **options: Any) -> int:
        flags_of.setdefault(str(path), []).append(flags)
        return really_open(path, flags, *mode, **options)

    monkeypatch.setattr(os, "open", noted)
    for _ in range(2):
        with GpuPool(folder=two_gpus).lease(2):
            pass
    assert "GPU-aaaa.lock" in flags_of
    assert all(flags & os.O_EXCL for each in flags_of.values() for flags in each if flags & os.O_CREAT)


@as_root
@pytest.mark.parametrize("trap", ["link", "pipe", "folder", "private"])
def test_a_trap_instead_of_a_lock_is_only_an_error(
    trap: str, users: tuple[Path, Callable[[int], User]], tmp_path: Path
) -> None:
    folder, _ = users
    folder.mkdir()
    folder.chmod(0o1777)
    lock, victim = folder / "GPU-aaaa.lock", tmp_path / "victim"
    if trap == "link":
        lock.symlink_to(victim)
    elif trap == "pipe":
        os.mkfifo(lock)
    elif trap == "folder":
        lock.mkdir()
    else:
        lock.touch(0o600)
    os.chown(lock, 60001, 60001, follow_symlinks=False)
    with ThreadPoolExecutor(1) as pool:
        said = pool.submit(lambda: start_as(60002, users)).result(60)
    assert said.startswith(f"GPU leases cannot be kept in {folder}: {lock}: "), said
    assert not victim.exists()


def start_as(uid: int, users: tuple[Path, Callable[[int], User]]) -> str:
    return users[1](uid).said


@as_root
def test_a_link_instead_of_the_folder_does_not_change_its_target(
    users: tuple[Path, Callable[[int], User]], tmp_path: Path
) -> None:
    folder, _ = users
    victim = tmp_path / "victim"
    victim.mkdir(0o700)
    folder.symlink_to(victim)
    os.chown(folder, 60001, 60001, follow_symlinks=False)
    with pytest.raises(SandboxError, match="GPU leases cannot be kept in"), GpuPool(folder=folder).free():
        pass
    assert victim.stat().st_mode & 0o7777 == 0o700 and not list(victim.iterdir())


def test_a_lock_removed_while_it_is_opened_is_not_a_lease(two_gpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For example by a cleanup job: two runs would then hold locks on files with the same name."""
    really_lock, removed = fcntl.flock, list[Path]()

    def lock(descriptor: int, operation: int) -> None:
        really_lock(descriptor, operation)
        if not removed:
            removed.append(two_gpus / "GPU-aaaa.lock")
            removed[0].unlink()

    monkeypatch.setattr(fcntl, "flock", lock)
    with GpuPool(["0"], folder=two_gpus).lease(1), GpuPool(folder=two_gpus).free() as gpus:
        assert removed and [gpu.index for gpu in gpus] == [1]


def test_a_held_lock_has_a_recent_modification_time(two_gpus: Path) -> None:
    with GpuPool(["0"], folder=two_gpus).lease(1):
        pass
    lock = two_gpus / "GPU-aaaa.lock"
    os.utime(lock, (0, 0))
    with GpuPool(["0"], folder=two_gpus).lease(1):
        assert lock.stat().st_mtime > time.time() - 600


def test_a_container_is_given_exactly_its_gpus(two_gpus: Path, tmp_path: Path) -> None:
    from pytest_mlebench.sandbox.docker.container import configuration

    with GpuPool(["1"], folder=two_gpus).lease(1) as gpus:
        settings = configuration(
            Limits(gpus=1),
            own=[],
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
def test_an_agent_does_not_start_if_the_container_lacks_its_gpu(
    docker_engine: None, two_gpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some engines ignore the request for a GPU. The machine's `nvidia-smi` is a fake."""
    from pytest_mlebench.sandbox.docker.client import ContainerClient
    from pytest_mlebench.sandbox.docker.sandbox import DockerSandbox
    from tests.sandbox.scripted import make_runner

    create = ContainerClient.create

    def careless(self: ContainerClient, image: str, name: str, labels: Any, settings: dict[str, Any]) -> None:
        assert settings.pop("device_requests")
        create(self, image, name, labels, settings)

    monkeypatch.setattr(ContainerClient, "create", careless)
    monkeypatch.setenv("MLEBENCH_GPU_LOCKS", str(two_gpus))
    run = make_runner(DockerSandbox(), tmp_path)
    with pytest.raises(SandboxError, match=r"sees only 0 of the run's 2 GPUs .*so the agent was not started: install"):
        run("echo started", gpus=2)
    assert (tmp_path / "run-1/run.log").read_text() == ""
