"""A disk that fills up gives a clear error and no partial results; once there is space, the next call succeeds."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.kaggle_server import KaggleServer

pytestmark = pytest.mark.full

ID = "aerial-cactus-identification"
MEGABYTE = 1 << 20
COMPLETE = {"prepared", "state.json", "files.jsonl.gz"}


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """Mount a small file system in memory."""
    with ExitStack() as mounted:

        def make(options: str) -> Path:
            folder = tmp_path / "disk"
            folder.mkdir()
            command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                pytest.skip(f"a small file system cannot be mounted: {done.stderr.strip()}")
            mounted.callback(subprocess.run, ["umount", str(folder)], check=True)
            return folder

        yield make


@pytest.fixture
def files(raw_files: Callable[[str], dict[str, bytes]]) -> dict[str, bytes]:
    """Raw data of 6 MB, nearly all images, which the preparer copies."""
    files = raw_files(ID)
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(files["train.zip"])) as old, zipfile.ZipFile(buffer, "w") as new:
        pictures = [info.filename for info in old.infolist() if not info.is_dir()]
        for name in pictures:
            new.writestr(name, os.urandom(6 * MEGABYTE // len(pictures)))
    return {**files, "train.zip": buffer.getvalue()}


def prepare(data: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest_mlebench.cli", "prepare", "-c", ID, "--data-dir", str(data), *options]
    done = subprocess.run([*command, "--skip-verification"], capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
    return done


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if path.name != ".lock"}


def test_a_disk_that_fills_up_while_downloading(
    mount: Callable[[str], Path], kaggle_server: KaggleServer, files: dict[str, bytes]
) -> None:
    served = kaggle_server.add(ID, files)
    disk = mount("size=24m")
    (disk / "ballast").write_bytes(bytes(21 * MEGABYTE))
    done = prepare(disk)
    assert done.returncode == 1 and "not enough disk" in done.stderr and "MiB more is needed" in done.stderr
    assert names(disk) == {"ballast"}
    done = prepare(disk, "--skip-disk-check")
    assert done.returncode == 1 and "No space left on device" in done.stderr and "call again to resume" in done.stderr
    part = disk / ID / f"{ID}.zip.part"
    assert names(disk / ID) == {part.name, f"{part.name}.json"}
    there = part.stat().st_size
    (disk / "ballast").unlink()
    assert prepare(disk).returncode == 0 and names(disk / ID) == COMPLETE
    assert kaggle_server.asked("archive")[-1].sent == len(served.archive) - there > 0


def test_a_disk_that_fills_up_while_unpacking(
    mount: Callable[[str], Path], kaggle_server: KaggleServer, files: dict[str, bytes]
) -> None:
    served = kaggle_server.add(ID, {**files, **{f"more/{k}.txt": b"" for k in range(200)}})
    disk = mount("size=64m,nr_inodes=350")  # the directory of the archive does not reveal that inodes will run out
    (disk / "ballast").mkdir()
    for number in range(200):
        (disk / "ballast" / str(number)).touch()
    done = prepare(disk)
    assert done.returncode == 1 and f"the disk of {disk} is full" in done.stderr
    assert names(disk / ID) == {f"{ID}.zip"}
    for path in (disk / "ballast").iterdir():
        path.unlink()
    assert prepare(disk).returncode == 0 and names(disk / ID) == COMPLETE
    assert sum(request.sent for request in kaggle_server.asked("archive")) < 1.1 * len(served.archive)


def test_a_disk_that_fills_up_while_preparing(mount: Callable[[str], Path], files: dict[str, bytes]) -> None:
    disk = mount("size=24m")
    (disk / ID / "raw").mkdir(parents=True)
    for name, content in files.items():
        (disk / ID / "raw" / name).write_bytes(content)
    (disk / "ballast").write_bytes(bytes(14 * MEGABYTE))
    done = prepare(disk)
    assert (
        done.returncode == 1 and f"the disk of {disk / ID} is full" in done.stderr and "mlebench remove" in done.stderr
    )
    assert names(disk / ID) == {"raw"}
    (disk / "ballast").unlink()
    assert prepare(disk).returncode == 0 and names(disk / ID) == COMPLETE


def test_data_on_a_full_disk_can_be_removed(mount: Callable[[str], Path], files: dict[str, bytes]) -> None:
    disk = mount("size=24m")
    (disk / ID / "raw").mkdir(parents=True)
    for name, content in files.items():
        (disk / ID / "raw" / name).write_bytes(content)
    (disk / "ballast").touch()
    with pytest.raises(OSError), (disk / "ballast").open("wb", buffering=0) as ballast:
        while True:
            ballast.write(bytes(1 << 16))
    command = [sys.executable, "-m", "pytest_mlebench.cli", "remove", "-c", ID, "--data-dir", str(disk)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "freed 6." in done.stdout, done.stderr
    assert names(disk / ID) == set()
