"""An agent's disk usage is limited by a file system in a file, whose size the kernel enforces."""

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
from tests.sandbox.hostile.test_disk import LIMIT, WAYS, WRITE
from tests.sandbox.scripted import ENGINE, SAMPLE, SUBMIT, Runner, make_runner

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
    """Peak disk usage of runs, in bytes, during the block."""

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
def test_an_agent_cannot_exceed_its_disk_limit_with(way: str, run: Runner) -> None:
    """Its writes may succeed, because they are buffered in memory, but nothing beyond the limit reaches the disk."""
    script = f"{SUBMIT}; sync $SUBMISSION_DIR/submission.csv; cat > /home/x.py <<'EOF'\n{WRITE}\n{WAYS[way]}\nEOF\n"
    with Peak() as peak:
        result = run(f"{script}python3 /home/x.py", disk=LIMIT, time_limit=20)
    assert result.execution.sandbox.disk == "image"
    assert LIMIT / 2 < peak.bytes <= LIMIT * 1.25, peak.bytes
    assert result.submission == SAMPLE


def test_only_the_files_that_an_agent_left_are_collected(run: Runner, tmp_path: Path) -> None:
    script = (
        f"{SUBMIT}; echo 1 > $CODE_DIR/a.py; mkdir -p $LOGS_DIR/d/e; echo 2 > $LOGS_DIR/d/e/f; chmod 0 $LOGS_DIR/d; "
        "ln -s /etc/passwd $LOGS_DIR/link; rmdir $CODE_DIR 2>/dev/null; echo 3 > /home/other"
    )
    result = run(script, disk=LIMIT)
    with zipfile.ZipFile(result.run_dir / "files.zip") as files:
        assert sorted(files.namelist()) == ["code/a.py", "logs/d/e/f"]
    assert result.submission == SAMPLE
    assert result.execution.sandbox.left_out == ("logs/link (link)",)
