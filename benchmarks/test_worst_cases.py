"""Time and memory that malicious submissions need, beyond those of an honest one."""

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
from pytest_mlebench.data.dataset import Dataset
from pytest_mlebench.data.store import DataStore
from tests.competitions.worst_cases import worst_cases

CATALOGUE = default_catalogue()
IDS = [id for id in CATALOGUE.ids if id in full_size.SIZES]
SECONDS = 300.0
"""Time limit of a case."""
Figures = dict[str, list[dict[str, Any]]]


class Process:
    """A grading process that is restarted if a submission crashes it."""

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
    screened = pytestconfig.getoption("--worst-only")
    logging.getLogger("pytest_mlebench").setLevel(logging.ERROR)
    synthetic = DataStore(tmp_path).prepare(competition, synthetic=1)
    for what in ("grade", "check")[: 2 if pytestconfig.getoption("--check-cases") else 1]:
        names = None
        if screened:
            small, larger = _rows(competition, synthetic, tmp_path, what, [size // 100, size // 25])
            names = _worst(small, larger, screened)
        for row in _rows(competition, synthetic, tmp_path, what, [size], names)[0]:
            figures["worst cases"].append({"competition": id, "what": what, **row})
            if file := pytestconfig.getoption("--cases"):
                with Path(file).open("a") as lines:
                    print(json.dumps(figures["worst cases"][-1]), file=lines)


def _worst(small: list[dict[str, Any]], larger: list[dict[str, Any]], number: int) -> set[str]:
    """The cases that take most time or memory, or whose time grows most with the file's size."""
    before = {row["case"]: row["seconds"] for row in small}
    orders = (
        lambda row: row["seconds"],
        lambda row: row["mb"],
        lambda row: row["seconds"] - 4 * max(before.get(row["case"], 0.0), 0.0),
    )
    return {row["case"] for order in orders for row in sorted(larger, key=order)[-number:]}


def _rows(
    competition: Competition,
    synthetic: Dataset,
    folder: Path,
    what: str,
    sizes: list[int],
    names: set[str] | None = None,
) -> list[list[dict[str, Any]]]:
    """Figures of all cases, or of those in ``names``, for each size. The data has the size for the largest one."""
    with TemporaryDirectory(dir=folder) as full_folder:
        data, submission = synthetic.folder, synthetic.perfect_submission
        if what == "grade":
            full = full_size.make(competition, synthetic, Path(full_folder), max_submission_bytes=max(sizes) / 2)
            data, submission = full.dataset.folder, full.submission
        process = Process(competition, data, what)
        try:
            path = folder / "case.csv"
            return [list(_graded(process, competition.id, submission, path, size, names)) for size in sizes]
        finally:
            process.stop()


def _graded(
    process: Process, id: str, submission: Path, path: Path, size: int, names: set[str] | None
) -> Iterator[dict[str, Any]]:
    good = pd.read_csv(submission, dtype=str, keep_default_na=False)
    process(submission)  # the first call imports modules, which is not counted
    honest = process(submission)
    shape = EXCEPTIONS.get(id, Shape())
    ids = shape.ids or (good.columns[0],)
    for name, content in (*worst_cases(good, ids, size), *shape.worst_cases(good)):
        if names is not None and name not in names:
            continue
        path.write_bytes(content())
        reply = process(path)
        yield {
            "case": name,
            "megabytes": path.stat().st_size / 1e6,
            "seconds": reply["cpu_seconds"] - honest["cpu_seconds"],
            "mb": reply["peak_mb"] - honest["peak_mb"],
            "honest_seconds": honest["cpu_seconds"],
            "honest_mb": honest["peak_mb"],
            "result": reply.get("error") or f"score {reply.get('score', '-')}",
        }
