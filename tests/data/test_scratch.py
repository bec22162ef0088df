"""Copies of prepared data on a node's disk: users share one copy, and the last user removes it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections import namedtuple
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_mlebench.catalog import Competition
from pytest_mlebench.data.dataset import Dataset
from pytest_mlebench.data.store import DataStore
from pytest_mlebench.errors import DataError
from pytest_mlebench.extras.engines.scratch import copied
from pytest_mlebench.io.progress import Event, event_text

TOY = Path(__file__).parents[1] / "toys/competitions/toy-parity"
USER = f"""
import sys
from pathlib import Path
from pytest_mlebench.catalog import Competition
from pytest_mlebench.data.dataset import Dataset
from pytest_mlebench.extras.engines.scratch import copied
from pytest_mlebench.io.progress import event_text

dataset = Dataset(Competition.load(Path({str(TOY)!r})), Path(sys.argv[1]))
with copied(dataset, Path(sys.argv[2]), lambda event: print(event_text(event), flush=True)) as near:
    print("has", len(near.answers.read_bytes()), flush=True)
    sys.stdin.read()
"""
Usage = namedtuple("Usage", "total used free")


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    return DataStore(tmp_path / "shared").prepare(Competition.load(TOY))


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    return tmp_path / "scratch"


def left(scratch: Path) -> list[str]:
    """Existing copies, complete or not."""
    return [path.name for path in scratch.glob("mlebench-*/*") if path.name != ".locks"]


def files(folder: Path) -> dict[str, tuple[bytes, int]]:
    paths = [path for path in folder.rglob("*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): (path.read_bytes(), path.stat().st_mode) for path in paths}


class User:
    """A process that uses a copy until its test ends it."""

    def __init__(self, dataset: Dataset, scratch: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", USER, str(dataset.folder), str(scratch)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def wait(self) -> str:
        """Wait until it has its copy, and return its output so far."""
        assert self.process.stdout is not None
        said = ""
        for line in self.process.stdout:
            said += line
            if line.startswith("has"):
                return said
        raise AssertionError(f"it has ended: {said}")

    def end(self, number: int | None = None) -> None:
        if number is not None:
            self.process.send_signal(number)
        self.process.communicate(timeout=120)


@pytest.fixture
def users(dataset: Dataset, scratch: Path) -> Iterator[list[User]]:
    started = [User(dataset, scratch) for _ in range(3)]
    yield started
    for user in started:
        user.process.kill()
        user.process.communicate()


def test_a_copy_equals_the_data_and_is_removed_afterwards(dataset: Dataset, scratch: Path) -> None:
    events: list[Event] = []
    with copied(dataset, scratch, events.append) as near:
        assert files(near.prepared) == files(dataset.prepared)
        assert near.prepared.is_relative_to(scratch) and near.state == dataset.state and near.listing.exists()
        assert (scratch / f"mlebench-{os.getuid()}").stat().st_mode & 0o777 == 0o700
        with copied(dataset, scratch, events.append) as again:
            assert again.folder == near.folder
        assert near.answers.exists()
    assert left(scratch) == []
    assert sum("copying" in event_text(event) for event in events) == 1


@pytest.mark.full
def test_several_processes_copy_once_and_the_last_one_removes_it(users: list[User], scratch: Path) -> None:
    said = [user.wait() for user in users]
    assert sum("copying" in text for text in said) == 1
    for user in users[:2]:
        user.end()
        assert len(left(scratch)) == 1
    users[2].end()
    assert left(scratch) == []


@pytest.mark.full
def test_a_killed_process_does_not_count_as_a_user(users: list[User], scratch: Path) -> None:
    for user in users:
        user.wait()
    for user in users[:2]:
        user.end(signal.SIGKILL)
    assert len(left(scratch)) == 1
    users[2].end()
    assert left(scratch) == []


@pytest.mark.full
def test_the_next_user_of_any_data_removes_copies_of_killed_users(
    users: list[User], scratch: Path, tmp_path: Path
) -> None:
    for user in users:
        user.wait()
    for user in users:
        user.end(signal.SIGKILL)
    (dead,) = left(scratch)
    other = DataStore(tmp_path / "other").prepare(Competition.load(TOY))
    with copied(other, scratch) as near:
        assert near.answers.exists() and dead not in left(scratch)
    assert left(scratch) == []


@pytest.mark.full
def test_data_that_was_prepared_again_gets_a_new_copy(dataset: Dataset, scratch: Path, tmp_path: Path) -> None:
    with copied(dataset, scratch) as near:
        DataStore(tmp_path / "shared").prepare(dataset.competition, force=True)
        with copied(dataset, scratch) as anew:
            assert anew.folder != near.folder and near.answers.exists()


@pytest.mark.full
def test_too_little_space_is_reported_before_anything_is_copied(
    dataset: Dataset, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(1000, 900, 100))
    with pytest.raises(DataError) as caught, copied(dataset, scratch):
        pass
    assert "toy-parity: not enough disk at" in str(caught.value) and "leave it out to use" in str(caught.value)
    assert left(scratch) == []


def test_a_copy_of_data_that_changes_meanwhile_is_not_used(dataset: Dataset, scratch: Path) -> None:
    def change(event: Event) -> None:
        (dataset.public / "train.csv").unlink(missing_ok=True)

    with pytest.raises(DataError, match="has other files; was it changed meanwhile"), copied(dataset, scratch, change):
        pass
    assert left(scratch) == []


@pytest.mark.full
def test_a_failed_copy_names_the_file_and_leaves_nothing(dataset: Dataset, scratch: Path) -> None:
    def break_it(event: Event) -> None:
        (dataset.public / "unreadable").symlink_to("nowhere")
        shutil.rmtree(dataset.private)

    with pytest.raises(DataError, match=r"cannot be copied to .*: No such file"), copied(dataset, scratch, break_it):
        pass
    assert left(scratch) == []


def test_a_folder_that_others_can_open_is_rejected(dataset: Dataset, scratch: Path) -> None:
    own = scratch / f"mlebench-{os.getuid()}"
    own.mkdir(parents=True)
    own.chmod(0o755)
    with pytest.raises(DataError, match=f"chmod 700 {own}"), copied(dataset, scratch):
        pass


def test_a_link_in_place_of_the_folder_is_rejected_before_anything_is_written(dataset: Dataset, scratch: Path) -> None:
    target = scratch / "victim"
    target.mkdir(parents=True)
    (scratch / f"mlebench-{os.getuid()}").symlink_to(target)
    with pytest.raises(DataError, match="must be a folder you own"), copied(dataset, scratch):
        pass
    assert list(target.iterdir()) == []
