"""What submissions that are made to hurt cost, beyond what an honest one does."""

from __future__ import annotations

import json
import logging
import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd
import pytest

from benchmarks import full_size
from benchmarks.exceptions import EXCEPTIONS, Shape
from pytest_mlebench.catalog import Competition, default_catalogue
from pytest_mlebench.data.store import DataStore
from pytest_mlebench.grading.golden import prepare_synthetic
from tests.competitions.worst_cases import worst_cases

CATALOGUE = default_catalogue()
IDS = [id for id in CATALOGUE.ids if id in full_size.SIZES]
SECONDS = 300.0
"""After which a case is ended."""
Figures = dict[str, list[dict[str, Any]]]


class Process:
    """A grading process that is started again where a submission ends it."""

    def __init__(self, competition: Competition, data: Path, what: str) -> None:
        script = Path(__file__).with_name("grading_process.py")
        self._command = [sys.executable, str(script), str(competition.folder), str(data), what]
        self._start()

    def _start(self) -> None:
        self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._reply()

    def _reply(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        if not select.select([self._process.stdout], [], [], SECONDS)[0]:
            return {"error": "too slow", "seconds": SECONDS, "cpu_seconds": SECONDS, "peak_mb": 0, "ended": True}
        line = self._process.stdout.readline()
        ended = {"error": "the process ended", "seconds": 0, "cpu_seconds": 0, "peak_mb": 8590, "ended": True}
        reply: dict[str, Any] = json.loads(line) if line else ended
        return reply

    def __call__(self, path: Path) -> dict[str, Any]:
        assert self._process.stdin is not None
        print(path, file=self._process.stdin, flush=True)
        reply = self._reply()
        if "ended" in reply:
            self.stop()
            self._start()
        return reply

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with suppress(OSError):
                pipe.close()


@pytest.mark.parametrize("id", IDS)
def test_grading_and_checking_worst_cases(
    id: str, tmp_path: Path, figures: Figures, pytestconfig: pytest.Config
) -> None:
    competition = CATALOGUE[id]
    size = int(pytestconfig.getoption("--case-megabytes") * 1e6)
    logging.getLogger("pytest_mlebench").setLevel(logging.ERROR)
    synthetic = prepare_synthetic(competition, DataStore(tmp_path))
    with TemporaryDirectory(dir=tmp_path) as folder:
        full = full_size.make(competition, synthetic, Path(folder), max_submission_bytes=size / 2)
        sides = (
            ("grade", full.dataset.folder, full.submission),
            ("check", synthetic.folder, synthetic.perfect_submission),
        )[: 2 if pytestconfig.getoption("--check-cases") else 1]
        for what, data, submission in sides:
            process = Process(competition, data, what)
            try:
                for row in _rows(process, id, submission, tmp_path / "case.csv", size):
                    figures["worst cases"].append({"competition": id, "what": what, **row})
                    if file := pytestconfig.getoption("--cases"):
                        with Path(file).open("a") as lines:
                            print(json.dumps(figures["worst cases"][-1]), file=lines)
            finally:
                process.stop()


def _rows(process: Process, id: str, submission: Path, path: Path, size: int) -> Iterator[dict[str, Any]]:
    good = pd.read_csv(submission, dtype=str, keep_default_na=False)
    process(submission)  # what is imported at the first one is not counted
    honest = process(submission)
    ids = EXCEPTIONS.get(id, Shape()).ids or (good.columns[0],)
    for name, content in worst_cases(good, ids, size):
        path.write_bytes(content)
        reply = process(path)
        yield {
            "case": name,
            "megabytes": len(content) / 1e6,
            "seconds": reply["cpu_seconds"] - honest["cpu_seconds"],
            "mb": reply["peak_mb"] - honest["peak_mb"],
            "honest_seconds": honest["cpu_seconds"],
            "honest_mb": honest["peak_mb"],
            "result": reply.get("error") or f"score {reply.get('score', '-')}",
        }
