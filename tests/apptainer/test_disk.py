"""What an agent may write where its disk is limited: a file system in a file, whose size the kernel keeps."""

from __future__ import annotations

import os
import tempfile
import threading
import zipfile
from contextlib import suppress
from pathlib import Path

import pytest

from pytest_mlebench import Bench
from pytest_mlebench.sandbox import Sandbox
from pytest_mlebench.sandbox.contract import SOCKETS
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


@pytest.mark.parametrize("way", ["temporary files"])
def test_an_agent_gets_no_more_of_the_hosts_disk_by(way: str, run: Runner) -> None:
    """Its writes may succeed, as they wait in memory; nothing beyond the limit gets to the disk."""
    script = f"{SUBMIT}; sync $SUBMISSION_DIR/submission.csv; cat > /home/x.py <<'EOF'\n{WRITE}\n{WAYS[way]}\nEOF\n"
    with Peak() as peak:
        result = run(f"{script}python3 /home/x.py", disk=LIMIT, time_limit=20)
    assert result.execution.sandbox.disk == "image"
    assert LIMIT / 2 < peak.bytes <= LIMIT * 1.25, peak.bytes
    assert result.submission == SAMPLE


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
