"""``mlebench verify``, ``remove`` and ``list``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_mlebench.io.locks import hold_lock
from pytest_mlebench.io.units import format_size
from tests.kaggle_server import zip_bytes
from tests.left import dig

pytestmark = pytest.mark.full

DIGITS, TITANIC = "smoke-digits", "spaceship-titanic"
Mlebench = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def mlebench(data: Path) -> Mlebench:
    def call(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "pytest_mlebench.cli", name, "--data-dir", str(data), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert "Traceback" not in done.stderr
        return done

    return call


@pytest.fixture
def prepared(data: Path, mlebench: Mlebench, raw_files: Callable[[str], dict[str, bytes]]) -> Path:
    """Synthetic data, whose checksums do not match, with its raw data."""
    (data / TITANIC).mkdir(parents=True)
    (data / TITANIC / f"{TITANIC}.zip").write_bytes(zip_bytes(raw_files(TITANIC)))
    assert mlebench("prepare", "-c", TITANIC, "--skip-verification", "--keep-raw").returncode == 0
    assert mlebench("prepare", "-c", DIGITS).returncode == 0
    return data


def state(mlebench: Mlebench, id: str) -> str:
    return str(json.loads(mlebench("list", "-c", id, "--json").stdout)[0]["state"])


def test_verify_finds_missing_changed_and_extra_files(prepared: Path, mlebench: Mlebench) -> None:
    assert state(mlebench, DIGITS) == "prepared (verified)"
    done = mlebench("verify", "-c", DIGITS)
    assert done.returncode == 0 and done.stdout == f"{DIGITS}: no differences\n"
    public = prepared / DIGITS / "prepared/public"
    (public / "sample_submission.csv").unlink()
    (public / "train.csv").chmod(0o644)
    with (public / "train.csv").open("a") as file:
        file.write("\n")
    (public / "more.csv").touch()
    done = mlebench("verify", "-c", DIGITS)
    assert done.returncode == 1
    head, *wrong = done.stdout.splitlines()
    assert head == f"{DIGITS}: 3 differences"
    assert any("public/sample_submission.csv is missing" in line for line in wrong)
    assert any("public/train.csv" in line for line in wrong)
    assert any("public/more.csv should not be there" in line for line in wrong)
    assert state(mlebench, DIGITS) == "prepared (differs)"


def test_verify_compares_checksums(prepared: Path, mlebench: Mlebench) -> None:
    done = mlebench("verify", "--json")
    found = json.loads(done.stdout)
    assert done.returncode == 1 and found[DIGITS] == []
    assert any(line.startswith("private/test.csv: expected 1cb99c65") for line in found[TITANIC])


def test_verify_explains_how_to_prepare_missing_data(mlebench: Mlebench, data: Path) -> None:
    done = mlebench("verify", "-c", DIGITS)
    assert done.returncode == 1 and f"mlebench prepare -c {DIGITS} --data-dir {data}" in done.stdout


def test_remove_deletes_raw_data_or_everything(prepared: Path, mlebench: Mlebench) -> None:
    assert mlebench("remove", "-c", TITANIC, "--raw").returncode == 0
    assert not (prepared / TITANIC / "raw").exists() and (prepared / TITANIC / "prepared").is_dir()
    before = sum(path.stat().st_blocks for path in (prepared / TITANIC).rglob("*.*") if path.is_file()) * 512
    done = mlebench("remove", "-c", TITANIC)
    assert done.stdout.splitlines()[0] == f"{TITANIC}: freed {format_size(before)}"
    assert [path.name for path in (prepared / TITANIC).iterdir()] == [".lock"]
    assert state(mlebench, TITANIC) == "absent"
    assert mlebench("remove", "-c", TITANIC).stdout == "freed 0 bytes in total\n"


def test_remove_deletes_folders_of_any_depth(data: Path, mlebench: Mlebench) -> None:
    for name in ("raw", "prepared", ".preparing-x"):
        dig(data / TITANIC / name, 1100, "d")
    done = mlebench("remove", "-c", TITANIC)
    assert done.returncode == 0, done.stderr
    assert [path.name for path in (data / TITANIC).iterdir()] == [".lock"]


def test_files_with_other_hard_links_do_not_count_as_freed(prepared: Path, mlebench: Mlebench) -> None:
    largest = max((prepared / TITANIC).rglob("*.csv"), key=lambda path: path.stat().st_size)
    os.link(largest, prepared / "mine.csv")
    free = sum(
        path.stat().st_blocks * 512 // path.stat().st_nlink
        for path in (prepared / TITANIC).rglob("*")
        if path.is_file() and not path.samefile(largest)
    )
    assert mlebench("remove", "-c", TITANIC).stdout.splitlines()[0] == f"{TITANIC}: freed {format_size(free)}"
    assert (prepared / "mine.csv").is_file()


def test_nothing_is_removed_while_a_process_uses_it(prepared: Path, mlebench: Mlebench) -> None:
    with hold_lock(prepared / TITANIC / ".lock", "prepares", TITANIC):
        done = mlebench("remove", "-c", TITANIC)
        assert f"in use by process {os.getpid()}" in state(mlebench, TITANIC)
    assert done.returncode == 1
    assert f"{TITANIC}: in use by process {os.getpid()} on host" in done.stderr and "nothing was removed" in done.stderr
    assert (prepared / TITANIC / "prepared").is_dir()


def test_list_shows_the_state_and_disk_usage_of_each(data: Path, mlebench: Mlebench) -> None:
    folder = data / TITANIC
    folder.mkdir(parents=True)
    assert state(mlebench, TITANIC) == "absent" and state(mlebench, DIGITS) == "bundled"
    (folder / f"{TITANIC}.zip.part").write_bytes(bytes(2_000_000))
    assert state(mlebench, TITANIC) == "partly downloaded"
    (folder / f"{TITANIC}.zip.part").rename(folder / f"{TITANIC}.zip")
    assert state(mlebench, TITANIC) == "downloaded"
    (folder / "raw").mkdir()
    (folder / "raw/train.csv").touch()
    assert state(mlebench, TITANIC) == "raw"
    assert mlebench("list", "-c", TITANIC).stdout.splitlines()[1].endswith("  1.91 MiB  raw")
