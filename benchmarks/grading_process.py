"""Grades in a separate process, so that its memory is that of grading alone.

``python grading_process.py COMPETITION_FOLDER DATA_FOLDER`` reads the answers, then grades the submissions whose paths
it reads from standard input. With the third argument ``check``, it only checks their format. For each submission, it
prints a line of JSON with seconds, CPU seconds and peak memory.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from pytest_mlebench.catalog import Competition
from pytest_mlebench.data.dataset import Dataset
from pytest_mlebench.defaults import GRADING_MEMORY
from pytest_mlebench.errors import GraderDefect, InvalidSubmission, MLEBenchError
from pytest_mlebench.grading.scorer import Form, Scorer


def main(folder: str, data: str, what: str = "grade") -> None:
    resource.setrlimit(resource.RLIMIT_DATA, (GRADING_MEMORY, GRADING_MEMORY))
    competition = Competition.load(Path(folder))
    dataset = Dataset(competition, Path(data))
    work: Callable[[Path], dict[str, Any]]
    if what == "check":
        form = Form(competition, dataset.public)
        _report(dict)
        work = partial(_check, form)
    else:
        scorer = Scorer(competition, dataset.answers)
        _report(lambda: {"rows": len(scorer.answers)})
        work = partial(_score, scorer)
    for line in sys.stdin:
        path = Path(line.rstrip("\n"))
        _report(partial(work, path))


def _score(scorer: Scorer, path: Path) -> dict[str, Any]:
    return {"score": scorer.score(path)}


def _check(form: Form, path: Path) -> dict[str, Any]:
    form.check(path)
    return {}


def _report(work: Callable[[], dict[str, Any]]) -> None:
    _reset_peak()
    began, cpu_began = time.perf_counter(), time.process_time()
    try:
        result = work()
    except InvalidSubmission as error:
        result = {"error": str(error), "invalid": str(error)}
    except (MLEBenchError, GraderDefect, MemoryError) as error:
        result = {"error": f"{type(error).__name__}: {error}"}
    took = {"seconds": time.perf_counter() - began, "cpu_seconds": time.process_time() - cpu_began}
    print(json.dumps({**result, **took, "peak_mb": _peak_mb()}), flush=True)


def _reset_peak() -> None:
    if (file := Path("/proc/self/clear_refs")).exists():
        file.write_text("5")


def _peak_mb() -> float:
    """Peak resident memory since the last reset (on Linux) or since the start (elsewhere)."""
    if (status := Path("/proc/self/status")).exists():
        # ru_maxrss starts at the size of the parent process.
        return next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("VmHWM")) / 1e3
    unit = 1e6 if sys.platform == "darwin" else 1e3
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


if __name__ == "__main__":
    main(*sys.argv[1:])
