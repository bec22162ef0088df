"""Time and memory of grading a submission of the full data's size."""

from __future__ import annotations

import json
import logging
import math
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from benchmarks import full_size
from pytest_mlebench.catalog import default_catalogue
from pytest_mlebench.data.store import DataStore

CATALOGUE = default_catalogue()
Figures = dict[str, list[dict[str, Any]]]
IDS = [id for id in CATALOGUE.ids if id in full_size.SIZES and CATALOGUE[id].file("grade.py").exists()]


@contextmanager
def grading_process(full: full_size.FullSize) -> Iterator[Callable[[Path | None], dict[str, Any]]]:
    """A function that grades a submission in a separate process. For None it reports the time to read answers."""
    competition = full.dataset.competition
    script = Path(__file__).with_name("grading_process.py")
    command = [sys.executable, str(script), str(competition.folder), str(full.dataset.folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        requests, replies = process.stdin, process.stdout

        def ask(submission: Path | None) -> dict[str, Any]:
            if submission is not None:
                print(submission, file=requests, flush=True)
            reply: dict[str, Any] = json.loads(replies.readline() or '{"error": "the process ended"}')
            if "error" in reply:
                pytest.fail(f"{competition.id}: {reply['error']}")
            return reply

        yield ask
        requests.close()


@pytest.mark.parametrize("id", IDS)
def test_reading_and_grading_a_submission_of_full_size(
    id: str, benchmark: BenchmarkFixture, tmp_path: Path, figures: Figures, pytestconfig: pytest.Config
) -> None:
    competition = CATALOGUE[id]
    logging.getLogger("pytest_mlebench").setLevel(logging.ERROR)
    synthetic = DataStore(tmp_path).prepare(competition, synthetic=1)
    with TemporaryDirectory(dir=tmp_path) as folder:  # pytest would keep these gigabytes
        full = full_size.make(competition, synthetic, Path(folder))
        with grading_process(full) as grade:
            answers = grade(None)
            replies: list[dict[str, Any]] = []
            benchmark.pedantic(
                lambda: replies.append(grade(full.submission)), rounds=pytestconfig.getoption("--grader-rounds")
            )
        megabytes = full.submission.stat().st_size / 1e6
    assert not math.isnan(replies[0]["score"])
    benchmark.extra_info.update(
        competition=id,
        split=competition.split,
        rows=full.submission_rows,
        megabytes=round(megabytes, 1),
        seconds=round(min(reply["seconds"] for reply in replies), 3),
        cpu_seconds=round(min(reply["cpu_seconds"] for reply in replies), 3),
        peak_mb=round(max(reply["peak_mb"] for reply in replies)),
        answers_rows=full.answers_rows,
        answers_seconds=round(answers["seconds"], 3),
        answers_peak_mb=round(answers["peak_mb"]),
        score=replies[0]["score"],
    )
    figures["graders"].append(benchmark.extra_info)
