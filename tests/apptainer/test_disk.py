"""What an agent may write where its disk is limited: a file system in a file, whose size the kernel keeps."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import zipfile
from contextlib import suppress
from pathlib import Path

import pytest

from pytest_mlebench import Bench
from pytest_mlebench.sandbox import Ending, Sandbox
from pytest_mlebench.sandbox.leftovers import SOCKETS
from pytest_mlebench.sandbox.snapshots import SnapshotPolicy, Snapshots
from tests.sandbox.hostile.test_disk import LIMIT, SUBMIT, WAYS, WRITE
from tests.sandbox.scripted import ENGINE, SAMPLE, Runner, make_runner

pytestmark = [
    pytest.mark.docker,
    pytest.mark.serial,
    pytest.mark.skipif(ENGINE != "apptainer", reason="MLEBENCH_TEST_ENGINE=apptainer runs it"),
]


@pytest.fixture(scope="module")
def limited() -> Sandbox:
    images = os.environ["MLEBENCH_TEST_SIF"]
    bench = Bench(sandbox="apptainer", build_network="full", sif=images, disk=f"{LIMIT >> 20}m", reporter=print)
    return bench.building_sandbox()


@pytest.fixture
def run(limited: Sandbox, tmp_path: Path) -> Runner:
    return make_runner(limited, tmp_path)


class Peak:
    """The most bytes that runs held on this machine's disk while the block worked."""

    def __init__(self) -> None:
        self.bytes = 0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self) -> Peak:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._done.wait(0.02):
            total = 0
            for path in Path(tempfile.gettempdir()).glob(f"{SOCKETS}*/**/*"):
                with suppress(OSError):
                    total += path.lstat().st_blocks * 512
            self.bytes = max(self.bytes, total)


@pytest.mark.parametrize("way", ["many files", "temporary files", "deleted files that are open"])
def test_an_agent_gets_no_more_of_the_hosts_disk_by(way: str, run: Runner) -> None:
    """Its writes may succeed, as they wait in memory; nothing beyond the limit gets to the disk."""
    script = f"{SUBMIT}; sync $SUBMISSION_DIR/submission.csv; cat > /home/x.py <<'EOF'\n{WRITE}\n{WAYS[way]}\nEOF\n"
    with Peak() as peak:
        result = run(f"{script}python3 /home/x.py", disk=LIMIT, time_limit=20)
    assert result.execution.sandbox.disk == "image"
    assert LIMIT / 2 < peak.bytes <= LIMIT * 1.25, peak.bytes
    assert result.submission == SAMPLE


def test_a_full_disk_is_an_error_that_the_agent_sees_and_the_record_tells(run: Runner) -> None:
    result = run(f"{SUBMIT}; head -c 60M /dev/zero > /home/code/a && head -c 60M /dev/zero > /tmp/b", disk=LIMIT)
    assert result.execution.ending is Ending.CRASHED and "disk full" in result.execution.detail
    assert "No space left on device" in result.log and result.submission == SAMPLE


def test_what_an_agent_left_is_taken_out_and_nothing_else(run: Runner, tmp_path: Path) -> None:
    script = (
        f"{SUBMIT}; echo 1 > $CODE_DIR/a.py; mkdir -p $LOGS_DIR/d/e; echo 2 > $LOGS_DIR/d/e/f; chmod 0 $LOGS_DIR/d; "
        "ln -s /etc/passwd $LOGS_DIR/link; rmdir $CODE_DIR 2>/dev/null; echo 3 > /home/other"
    )
    result = run(script, disk=LIMIT)
    with zipfile.ZipFile(result.run_dir / "files.zip") as files:
        assert sorted(files.namelist()) == ["code/a.py", "logs/d/e/f"]
    assert result.submission == SAMPLE
    assert result.execution.sandbox.left_out == ("logs/link (link)",)


@pytest.mark.parametrize(
    "trick",
    [
        "rm -rf $SUBMISSION_DIR; ln -s /etc $SUBMISSION_DIR",
        "rm -rf $SUBMISSION_DIR $LOGS_DIR $CODE_DIR",
        "printf '#!/bin/bash\nsleep 600' > /tmp/t; chmod +x /tmp/t; cp /tmp/t /usr/bin/tar; cp /tmp/t /bin/sh",
        "mkfifo $SUBMISSION_DIR/submission.csv; ln -s /etc/passwd $LOGS_DIR/x",
    ],
)
def test_an_agent_wants_to_mislead_what_takes_its_files_out(trick: str, run: Runner) -> None:
    result = run(f"{trick}; true", disk=LIMIT)
    assert result.execution.ending is Ending.FINISHED
    assert result.submission is None and not (result.run_dir / "files.zip").exists()


def test_snapshots_are_taken_of_a_limited_disk(run: Runner, tmp_path: Path) -> None:
    snapshots = Snapshots(tmp_path / "snapshots", policy=SnapshotPolicy(look_every=0.1, spacing=0.1))
    run(f"{SUBMIT}; sleep 3; echo more >> $SUBMISSION_DIR/submission.csv; sleep 3", disk=LIMIT, snapshots=snapshots)
    assert len(snapshots.taken) == 2 and snapshots.taken[0].path.read_text() == SAMPLE


def test_a_run_that_is_kept_keeps_its_disk(run: Runner) -> None:
    kept = Path(run("true", disk=LIMIT, keep=True).execution.sandbox.kept)
    try:
        assert (kept / "disk.img").is_file()
    finally:
        shutil.rmtree(kept)
