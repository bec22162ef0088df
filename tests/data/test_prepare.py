"""``mlebench prepare`` from the download to prepared data, with a local Kaggle server."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.kaggle_server import Cut, KaggleServer, Request, zip_bytes

pytestmark = pytest.mark.full

TITANIC, CACTUS, PLANTS = "spaceship-titanic", "aerial-cactus-identification", "plant-pathology-2020-fgvc7"
RawFiles = Callable[[str], dict[str, bytes]]
Mlebench = Callable[..., subprocess.CompletedProcess[str]]


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "pytest_mlebench.cli", *map(str, arguments)]


def mlebench(*arguments: object) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(command(*arguments), capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
    return done


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def prepare(data: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Skips verification, because synthetic data has other checksums."""
    return lambda *arguments: mlebench("prepare", "--data-dir", data, "--skip-verification", *arguments)


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if path.name != ".lock"}


def downloads(server: KaggleServer) -> list[Request]:
    """Requests that downloaded an archive, not only its size."""
    return [request for request in server.asked("archive") if request.range != "bytes=0-0"]


COMPLETE = {"prepared", "state.json", "files.jsonl.gz"}


def test_several_competitions_are_downloaded_unpacked_and_prepared(
    kaggle_server: KaggleServer,
    raw_files: RawFiles,
    data: Path,
    prepare: Mlebench,
) -> None:
    for id in (TITANIC, CACTUS):
        kaggle_server.add(id, raw_files(id))
    done = prepare("-c", TITANIC, "-c", CACTUS, "--json")
    assert done.returncode == 0, done.stderr
    for id in (TITANIC, CACTUS):
        told = [line.removeprefix(f"{id}: ") for line in done.stderr.splitlines() if line.startswith(id)]
        steps = [line for line in told if "not the known archive" not in line]
        assert steps == ["downloading", "unpacking", "preparing", f"prepared in {data / id / 'prepared'}"]
        assert names(data / id) == COMPLETE
    assert {id: entry["prepared"] for id, entry in json.loads(done.stdout).items()} == {TITANIC: True, CACTUS: True}
    requests = len(kaggle_server.requests)
    assert prepare("-c", TITANIC, "-c", CACTUS).returncode == 0
    assert len(kaggle_server.requests) == requests


def test_a_failure_does_not_stop_the_others_and_is_reported_at_the_end(
    kaggle_server: KaggleServer,
    raw_files: RawFiles,
    data: Path,
    prepare: Mlebench,
) -> None:
    kaggle_server.add(TITANIC, raw_files(TITANIC))
    kaggle_server.add(CACTUS, {"train.csv": b"id,has_cactus\n"})
    done = prepare("-c", PLANTS, "-c", CACTUS, "-c", TITANIC)  # the first is not on Kaggle
    assert done.returncode == 1
    assert names(data / TITANIC) == COMPLETE and names(data / CACTUS) == {"raw"}
    summary = done.stderr.split("2 of 3 competitions failed:")[1]
    assert f"{PLANTS}: Kaggle answered 404" in summary and f"{CACTUS}: " in summary and TITANIC not in summary


def test_unaccepted_rules_are_all_reported_before_any_download(
    kaggle_server: KaggleServer,
    raw_files: RawFiles,
    data: Path,
    prepare: Mlebench,
) -> None:
    for id in (TITANIC, CACTUS, PLANTS):
        kaggle_server.add(id, raw_files(TITANIC)).rules_accepted = id == TITANIC
    done = prepare("-c", TITANIC, "-c", CACTUS, "-c", PLANTS)
    assert done.returncode == 1
    assert all(f"https://www.kaggle.com/c/{id}/rules" in done.stderr for id in (CACTUS, PLANTS))
    assert "--skip-denied" in done.stderr and not data.exists()
    done = prepare("-c", TITANIC, "-c", CACTUS, "-c", PLANTS, "--skip-denied")
    assert done.returncode == 1 and "2 of 3 competitions failed" in done.stderr
    assert names(data / TITANIC) == COMPLETE


def test_raw_data_is_kept_on_request(
    kaggle_server: KaggleServer,
    raw_files: RawFiles,
    data: Path,
    prepare: Mlebench,
) -> None:
    kaggle_server.add(TITANIC, raw_files(TITANIC))
    assert prepare("-c", TITANIC, "--keep-raw").returncode == 0
    assert names(data / TITANIC) == COMPLETE | {"raw"}
    assert prepare("-c", TITANIC, "--force").returncode == 0  # from the raw data
    assert names(data / TITANIC) == COMPLETE and len(downloads(kaggle_server)) == 1


def test_data_that_differs_from_the_references_is_kept_separately(
    kaggle_server: KaggleServer, raw_files: RawFiles, data: Path
) -> None:
    kaggle_server.add(TITANIC, raw_files(TITANIC))
    done = mlebench("prepare", "-c", TITANIC, "--data-dir", data)
    assert done.returncode == 1
    assert "public/train.csv: expected 564a1614ecef9d9611cec4efdce4c412, found " in done.stderr
    assert f"It is kept in {data / TITANIC / 'prepared.mismatch'}" in done.stderr
    assert f"mlebench prepare -c {TITANIC} --data-dir {data} --skip-verification" in done.stderr
    assert names(data / TITANIC) == {"raw", "prepared.mismatch"}
    assert mlebench("prepare", "-c", TITANIC, "--data-dir", data, "--skip-verification").returncode == 0
    assert names(data / TITANIC) == COMPLETE and len(downloads(kaggle_server)) == 1


def test_an_existing_archive_is_not_downloaded(raw_files: RawFiles, data: Path, prepare: Mlebench) -> None:
    (data / TITANIC).mkdir(parents=True)
    (data / TITANIC / "raw").mkdir()  # the folder that MLE-bench creates before it unpacks
    (data / TITANIC / f"{TITANIC}.zip").write_bytes(zip_bytes(raw_files(TITANIC)))
    assert prepare("-c", TITANIC).returncode == 0
    assert names(data / TITANIC) == COMPLETE


def test_an_unpacked_archive_is_not_unpacked_again(raw_files: RawFiles, data: Path, prepare: Mlebench) -> None:
    """The state after a call that was killed between the two steps."""
    (data / TITANIC / "raw").mkdir(parents=True)
    for name, content in raw_files(TITANIC).items():
        (data / TITANIC / "raw" / name).write_bytes(content)
    (data / TITANIC / f"{TITANIC}.zip").write_bytes(b"would be damaged")
    assert prepare("-c", TITANIC, "--keep-raw").returncode == 0
    assert names(data / TITANIC) == COMPLETE | {"raw", f"{TITANIC}.zip"}
    assert prepare("-c", TITANIC, "--force").returncode == 0
    assert names(data / TITANIC) == COMPLETE


def bomb() -> bytes:
    """A small archive with a declared size of a petabyte."""
    content = bytearray(zip_bytes({"big.csv": b"0" * 1000}))
    directory = content.index(b"PK\1\2")
    content[directory + 24 : directory + 28] = (0xFFFFFFFE).to_bytes(4, "little")
    entry = bytes(content[directory : content.index(b"PK\5\6")])
    many = 250_000 // len(entry)
    end = bytearray(content[content.index(b"PK\5\6") :])
    end[8:12] = many.to_bytes(2, "little") * 2
    end[12:16] = (len(entry) * many).to_bytes(4, "little")
    return bytes(content[:directory]) + entry * many + bytes(end)


def encrypted() -> bytes:
    content = bytearray(zip_bytes({"train.csv": b"id\n"}))
    for place in (content.index(b"PK\3\4") + 6, content.index(b"PK\1\2") + 8):
        content[place] |= 1
    return bytes(content)


def changed(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 255]) + content[middle + 1 :]


@pytest.mark.parametrize(
    ("archive", "message"),
    [
        (zip_bytes({"train.csv": b"id\n" * 1000})[:-40], r"is damaged"),
        (changed(zip_bytes({"train.csv": os.urandom(10_000)})), r"is damaged"),
        (b"<html>", r"is damaged"),
        (encrypted(), r"needs a password"),
        (zip_bytes({"../../evil.csv": b"id\n"}), r"would be written outside"),
        (zip_bytes({"/evil.csv": b"id\n"}), r"would be written outside"),
        (zip_bytes({"a": b"", "a/b.csv": b""}), r"both a file and a folder"),
    ],
    ids=["cut off", "changed", "no archive", "encrypted", "climbing", "absolute", "contradictory"],
)
def test_an_archive_that_cannot_be_unpacked_is_kept_separately(
    archive: bytes, message: str, data: Path, prepare: Mlebench
) -> None:
    (data / TITANIC).mkdir(parents=True)
    (data / TITANIC / f"{TITANIC}.zip").write_bytes(archive)
    done = prepare("-c", TITANIC)
    assert done.returncode == 1 and message in done.stderr and "call again to download a new copy" in done.stderr
    assert names(data / TITANIC) == {f"{TITANIC}.zip.damaged"}
    assert names(data.parent) == {"data"}


def test_an_archive_larger_than_the_disk_is_not_unpacked(data: Path, prepare: Mlebench) -> None:
    (data / TITANIC).mkdir(parents=True)
    (data / TITANIC / f"{TITANIC}.zip").write_bytes(bomb())
    done = prepare("-c", TITANIC)
    assert done.returncode == 1 and "not enough disk" in done.stderr and " TiB more is needed" in done.stderr
    assert names(data / TITANIC) == {f"{TITANIC}.zip"}
    done = prepare("-c", TITANIC, "--skip-disk-check")
    assert done.returncode == 1 and "more than one member for" in done.stderr


def test_a_downloaded_archive_larger_than_the_disk_is_not_unpacked(
    kaggle_server: KaggleServer, raw_files: RawFiles, data: Path, prepare: Mlebench
) -> None:
    kaggle_server.add(TITANIC, raw_files(TITANIC)).archive = bomb()
    done = prepare("-c", TITANIC)
    assert done.returncode == 1 and "not enough disk" in done.stderr and " TiB more is needed" in done.stderr
    assert names(data / TITANIC) == {f"{TITANIC}.zip"}


def test_too_little_disk_space_is_reported_before_any_download(
    kaggle_server: KaggleServer,
    raw_files: RawFiles,
    data: Path,
    prepare: Mlebench,
) -> None:
    for id in (TITANIC, CACTUS):
        kaggle_server.add(id, raw_files(id))
    kaggle_server.competitions[CACTUS].files = {"huge.zip": 10**15}
    done = prepare("-c", TITANIC, "-c", CACTUS)
    assert done.returncode == 1
    assert "not enough disk" in done.stderr and "2 competitions may need up to 1.776 PiB" in done.stderr
    assert not data.exists()
    assert prepare("-c", TITANIC, "-c", CACTUS, "--skip-disk-check").returncode == 0


def test_one_of_two_processes_waits_for_the_other(kaggle_server: KaggleServer, raw_files: RawFiles, data: Path) -> None:
    served = kaggle_server.add(TITANIC, raw_files(TITANIC))
    kaggle_server.bytes_per_second = len(served.archive)
    arguments = command("prepare", "-c", TITANIC, "--data-dir", data, "--skip-verification")
    both = [subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    texts = [process.communicate(timeout=60)[1] for process in both]
    assert [process.returncode for process in both] == [0, 0], texts
    worked, waited = sorted(texts, key=lambda text: "waiting for" in text)
    assert "downloading" in worked and "waiting for" not in worked
    assert "which prepares spaceship-titanic" in waited and "downloading" not in waited
    assert len(downloads(kaggle_server)) == 1


def test_concurrent_downloads_are_limited_across_processes(
    kaggle_server: KaggleServer, raw_files: RawFiles, data: Path
) -> None:
    for id in (TITANIC, CACTUS):
        kaggle_server.add(id, {**raw_files(TITANIC), "more.bin": os.urandom(2 << 20)})
    kaggle_server.bytes_per_second = 1 << 20
    both = [
        subprocess.Popen(
            command("prepare", "-c", id, "--jobs", "1", "--data-dir", data, "--skip-verification"),
            stderr=subprocess.PIPE,
            text=True,
        )
        for id in (TITANIC, CACTUS)
    ]
    texts = [process.communicate(timeout=60)[1] for process in both]
    assert sum("waiting for one of 1 other processes to end" in text for text in texts) == 1


def test_ctrl_c_stops_immediately_and_the_next_call_resumes(
    kaggle_server: KaggleServer,
    raw_files: RawFiles,
    data: Path,
    prepare: Mlebench,
) -> None:
    served = kaggle_server.add(TITANIC, {**raw_files(TITANIC), "more.bin": os.urandom(4 << 20)})
    kaggle_server.bytes_per_second = 1 << 20
    arguments = command("prepare", "-c", TITANIC, "--data-dir", data, "--skip-verification")
    process = subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True)
    part = data / TITANIC / f"{TITANIC}.zip.part"
    wait_for(lambda: part.exists() and part.stat().st_size > 1 << 20)
    process.send_signal(signal.SIGINT)
    error = process.communicate(timeout=3)[1]  # the download would take this long again
    assert process.returncode == 130
    assert "To resume, run the same command again" in error and "Traceback" not in error
    there = part.stat().st_size
    kaggle_server.bytes_per_second = None
    assert prepare("-c", TITANIC).returncode == 0
    assert kaggle_server.asked("archive")[-1].sent <= len(served.archive) - there


def test_a_killed_worker_does_not_stop_the_others(kaggle_server: KaggleServer, raw_files: RawFiles, data: Path) -> None:
    for id in (TITANIC, CACTUS):
        kaggle_server.add(id, {**raw_files(id), "more.bin": os.urandom(2 << 20)})
    kaggle_server.bytes_per_second = 1 << 20
    arguments = command("prepare", "-c", TITANIC, "-c", CACTUS, "--data-dir", data, "--skip-verification")
    process = subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True)
    wait_for(lambda: all((data / id / f"{id}.zip.part").exists() for id in (TITANIC, CACTUS)))
    os.kill(json.loads((data / TITANIC / ".lock").read_text())["pid"], signal.SIGKILL)
    error = process.communicate(timeout=60)[1]
    assert process.returncode == 1 and names(data / CACTUS) == COMPLETE
    assert f"{TITANIC}: the process that prepared it ended with SIGKILL, perhaps because memory ran out" in error


def test_a_broken_connection_is_retried_and_reported(
    kaggle_server: KaggleServer,
    raw_files: RawFiles,
    data: Path,
    prepare: Mlebench,
) -> None:
    kaggle_server.add(TITANIC, raw_files(TITANIC))
    kaggle_server.script("archive", None, None, Cut(0.4))  # after checking rules and size
    done = prepare("-c", TITANIC)
    assert done.returncode == 0
    retried = f"{TITANIC}: the connection to Kaggle failed or was cut; trying again in "
    assert [line.startswith(retried) for line in done.stderr.splitlines() if "attempt 2 of 8" in line] == [True]
    assert len(downloads(kaggle_server)) == 2
    assert names(data / TITANIC) == COMPLETE


def test_progress_bars_are_shown_on_a_terminal(kaggle_server: KaggleServer, raw_files: RawFiles, data: Path) -> None:
    kaggle_server.add(TITANIC, {**raw_files(TITANIC), "more.bin": os.urandom(2 << 20)})
    kaggle_server.bytes_per_second = 2 << 20
    main, side = pty.openpty()
    termios.tcsetwinsize(side, (40, 120))
    process = subprocess.Popen(
        command("prepare", "-c", TITANIC, "--data-dir", data, "--skip-verification"),
        stderr=side,
    )
    os.close(side)
    text = ""
    try:
        while block := os.read(main, 1 << 16):
            text += block.decode()
    except OSError:  # raised when the terminal closes
        pass
    assert process.wait(timeout=60) == 0
    assert f"{TITANIC}: downloading" in text and "MiB/s" in text and "competitions" in text
    assert f"{TITANIC}: prepared in" in text


PAGES = [{"name": "Description", "postTitle": "", "content": "<p>Which passengers?</p>", "mimeType": "text/html"}]


def test_kaggles_own_description_can_be_used(
    kaggle_server: KaggleServer,
    raw_files: RawFiles,
    data: Path,
    prepare: Mlebench,
) -> None:
    kaggle_server.add(TITANIC, raw_files(TITANIC)).pages = PAGES
    description = data / TITANIC / "prepared/public/description.md"

    def noted() -> str:
        row = json.loads(mlebench("list", "-c", TITANIC, "--data-dir", data, "--json").stdout)[0]
        return str(row["description"])

    assert prepare("-c", TITANIC).returncode == 0
    ours = description.read_text()
    assert noted() == "bundled" and "Which passengers?" not in ours
    for _ in range(2):
        assert prepare("-c", TITANIC, "--description", "kaggle").returncode == 0
        assert noted() == "kaggle" and "Which passengers?" in description.read_text()
        assert description.stat().st_mode & 0o222 == 0
    assert len(kaggle_server.asked("ListCompetitionPages")) == 1
    assert prepare("-c", TITANIC, "--description", "bundled").returncode == 0
    assert noted() == "bundled" and description.read_text() == ours
    assert names(data / TITANIC) == COMPLETE


def test_no_internal_files_get_into_the_public_data(
    kaggle_server: KaggleServer,
    raw_files: RawFiles,
    data: Path,
    prepare: Mlebench,
) -> None:
    """This competition's preparer publishes all raw data."""
    id = "freesound-audio-tagging-2019"
    files = raw_files(id)
    kaggle_server.add(id, files)
    done = prepare("-c", id)
    assert done.returncode == 0, done.stderr
    public = data / id / "prepared/public"
    found = {path.relative_to(public).as_posix() for path in public.rglob("*") if path.is_file()}
    assert found == {name for name in files if "FSDKaggle2019.meta" not in name} | {"description.md"}


def wait_for(condition: Callable[[], bool], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "timed out"
        time.sleep(0.005)
