"""After ``kill -9``, each competition's data in the store is absent or complete, and the next call resumes."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.extent import ALL
from tests.kaggle_server import KaggleServer

pytestmark = pytest.mark.full

ID = "plant-pathology-2020-fgvc7"
PICTURES = 8000
"""Number of files, large enough that unpacking and preparing can be killed in the middle."""
PHASES = {"download": f"{ID}.zip.part", "unpack": ".unpacking-*/raw/*", "prepare": ".preparing-*/prepared/public/*"}
ROUNDS = 7 if ALL else 3
SEED = 20


@pytest.fixture(scope="module")
def raw_data() -> dict[str, bytes]:
    rng = random.Random(SEED)
    classes = ("healthy", "multiple_diseases", "rust", "scab")
    rows = [f"Train_{k}," + ",".join(str(int(k % 4 == c)) for c in range(4)) for k in range(PICTURES)]
    names = [f"Train_{k}" for k in range(PICTURES)] + ["Test_0"]
    return {
        "train.csv": "\n".join([",".join(("image_id", *classes)), *rows, ""]).encode(),
        "test.csv": b"image_id\nTest_0\n",
        "sample_submission.csv": b"image_id,healthy,multiple_diseases,rust,scab\nTest_0,0.25,0.25,0.25,0.25\n",
        **{f"images/{name}.jpg": rng.randbytes(300) for name in names},
    }


@pytest.fixture
def start(tmp_path: Path) -> Callable[[], subprocess.Popen[str]]:
    """Start ``mlebench prepare`` in a separate process group."""
    options = ("--data-dir", str(tmp_path), "--skip-verification")
    command = [sys.executable, "-m", "pytest_mlebench.cli", "prepare", "-c", ID, *options]
    return lambda: subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)


def sizes(folder: Path) -> dict[str, int]:
    return {path.relative_to(folder).as_posix(): path.stat().st_size for path in folder.rglob("*") if path.is_file()}


def test_after_a_kill_data_is_absent_or_complete_and_the_next_call_resumes(
    kaggle_server: KaggleServer,
    raw_data: dict[str, bytes],
    start: Callable[[], subprocess.Popen[str]],
    tmp_path: Path,
) -> None:
    served = kaggle_server.add(ID, raw_data)
    kaggle_server.bytes_per_second = len(served.archive) * 2
    folder = tmp_path / ID
    rng = random.Random(SEED)
    killed: Counter[str] = Counter()
    for turn in range(ROUNDS):
        for phase, trace in PHASES.items():
            process = start()
            while process.poll() is None and not any(folder.glob(trace)):
                time.sleep(0.002)
            time.sleep(rng.uniform(0, 0.25))
            still_at_it = any(folder.glob(trace)) and not (folder / "prepared").exists()
            # Kill either all processes, like a machine that stops, or only the first, which the others must notice.
            (os.killpg if turn % 2 else os.kill)(process.pid, signal.SIGKILL)
            process.communicate(timeout=60)  # the pipe closes when all of them have ended
            killed[phase] += still_at_it
            if (folder / "raw").exists():
                assert sizes(folder / "raw") == {name: len(content) for name, content in raw_data.items()}
                assert not (folder / f"{ID}.zip").exists() or (folder / f"{ID}.zip").read_bytes() == served.archive
            if (folder / "prepared").exists():
                assert_complete(folder, raw_data)
        last = start()
        error = last.communicate(timeout=120)[1]
        assert last.returncode == 0, error
        assert_complete(folder, raw_data)
        assert {path.name for path in folder.iterdir()} == {".lock", "prepared", "state.json", "files.jsonl.gz"}
        subprocess.run(
            [sys.executable, "-m", "pytest_mlebench.cli", "remove", "-c", ID, "--data-dir", str(tmp_path)], check=True
        )
    assert sum(killed.values()) >= len(PHASES) * ROUNDS - 1, killed
    sent = sum(request.sent for request in kaggle_server.asked("archive"))
    assert sent < 2 * ROUNDS * len(served.archive)  # existing data is not downloaded again


def assert_complete(folder: Path, raw_data: dict[str, bytes]) -> None:
    public = folder / "prepared/public"
    pictures = {path.name: path.stat().st_size for path in (public / "images").iterdir()}
    assert len(pictures) == PICTURES and set(pictures.values()) == {300}
    name = next(iter(pictures))
    assert (public / "images" / name).read_bytes() in raw_data.values()
    assert {"description.md", "sample_submission.csv", "test.csv", "train.csv"} <= {
        path.name for path in public.iterdir()
    }
    assert (folder / "prepared/private/test.csv").stat().st_size > 1000
