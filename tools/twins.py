"""What twins cost, what their data is worth, and which agents without knowledge of it earn medals.

python -m tools.twins ID ... [--seeds 2] [--size small] [--versions] [--baseline] [--shortcuts] [--jsonl FILE]
python -m tools.twins --markdown FILE

With --jsonl, each twin is a line of the file. Twins that have a line are not made again, so a run can be interrupted
and repeated. It makes all twins of one seed before those of the next. --markdown prints the lines as a table.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pytest_mlebench import Catalogue, Competition, default_catalogue
from pytest_mlebench.data.dataset import replace_by_level
from pytest_mlebench.errors import InvalidSubmission, MLEBenchError
from pytest_mlebench.gate.leaks import find_leaks
from pytest_mlebench.grading.scorer import Scorer
from pytest_mlebench.grading.twins import MadeTwin, as_submission, make_twin, read_sample
from tools.shortcuts import permuted, shortcut_auc, verdict

BASELINE = Path(__file__).parents[1] / "agents/baseline"


def measure(
    competition: Competition, seed: int, size: str, folder: Path, *, baseline: bool, control: bool = False
) -> dict[str, Any]:
    """A line of the table: costs, scores and medals of a twin, which is made in the folder."""
    twin = make_twin(competition, folder, seed, size)
    assert twin.medals is not None
    dataset, board = twin.dataset, twin.medals.leaderboard
    tables = {"sample": read_sample(dataset)} | {
        name: as_submission(table, read_sample(dataset)) for name, table in twin.predictions.items()
    }
    scores = {name: _graded(twin, table, folder) for name, table in tables.items()}
    cpu = 0.0
    if baseline:
        path, cpu = run_baseline(dataset.public, folder / "agent")
        scores["baseline"] = float(Scorer(competition, dataset.answers).score(path))
    if control and permuted(dataset, folder / "permuted", np.random.default_rng(seed)):
        path, _ = run_baseline(folder / "permuted", folder / "control")
        scores["permuted"] = float(Scorer(competition, dataset.answers).score(path))
    replace_by_level(dataset.public, folder)
    found = shortcut_auc(dataset, twin.predictions["ceiling"]) if control and twin.predictions else None
    return {
        "id": competition.id,
        "version": competition.version,
        "seed": seed,
        "size": size,
        "seconds": [round(s, 2) for s in twin.seconds],
        "megabytes": round(sum(p.stat().st_size for p in _files(folder / "raw", dataset.prepared)) / 1e6, 1),
        "rows": len(tables["sample"]),
        "digest": digest(dataset.raw),
        "refused": list(twin.refused),
        "floor": twin.medals.floor,
        "scores": {name: round(score, 5) for name, score in scores.items()},
        "thresholds": {name: getattr(board, name) for name in ("median", "bronze", "silver", "gold")},
        "medals": {name: board.medal(round(score, 5)) for name, score in scores.items()},
        "skills": {name: round(twin.medals.skill(score), 3) for name, score in scores.items()},
        "baseline_seconds": round(cpu, 1),
        "leaks": find_leaks(dataset),  # in files as runs get them
        "shortcuts": found,
    }


def _graded(twin: MadeTwin, table: pd.DataFrame, folder: Path) -> float:
    path = folder / "submission.csv"
    table.to_csv(path, index=False)
    try:
        return float(Scorer(twin.dataset.competition, twin.dataset.answers).score(path))
    except InvalidSubmission:  # some competitions' sample submission is
        return math.nan


def digest(folder: Path) -> str:
    """A digest of the names and contents of a folder's files."""
    found = hashlib.sha256()
    for path in sorted(_files(folder)):
        found.update(f"{path.relative_to(folder)}\0{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return found.hexdigest()[:16]


def _files(*folders: Path) -> Iterator[Path]:
    return (path for folder in folders for path in folder.rglob("*") if path.is_file())


def run_baseline(public: Path, folder: Path) -> tuple[Path, float]:
    """The bundled baseline on a public folder, in this environment: its submission, and its CPU seconds."""
    env = {f"{name}_DIR": str(folder / name.lower()) for name in ("SUBMISSION", "LOGS", "CODE")}
    env |= {"DATA_DIR": str(public), "TIME_LIMIT_SECS": "600", "OMP_NUM_THREADS": "1", "AGENT_DIR": str(BASELINE)}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, BASELINE / "baseline.py"], env=os.environ | env, capture_output=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return folder / "submission/submission.csv", cpu


def _competitions(catalogue: Catalogue, ids: list[str], *, versions: bool) -> Iterator[Competition]:
    for id in ids or [c.id for c in catalogue if c.file("twin.py").is_file()]:
        first = catalogue[id]
        yield from (first.of_version(v) for v in (first.versions if versions else first.versions[:1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ids", nargs="*", metavar="ID", help="competitions (default: all that have a twin)")
    parser.add_argument("--competitions-dir", action="append", default=[], metavar="DIR", help="your own; repeatable")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--size", default="small", choices=["micro", "small", "medium"])
    parser.add_argument("--versions", action="store_true", help="version 2 of the benchmark as well")
    parser.add_argument("--baseline", action="store_true", help="run the bundled baseline on each twin")
    parser.add_argument("--shortcuts", action="store_true",
        help="score a model on metadata alone, and the baseline on permuted labels")  # fmt: skip
    parser.add_argument("--keep", type=Path, help="leave the data in this folder")
    parser.add_argument("--jsonl", type=Path, help="append each line to this file as JSON")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="print a table of a file that --jsonl wrote")
    options = parser.parse_args()
    if options.markdown is not None:
        print(markdown(_read_rows(options.markdown)))
        return
    known = {_key(row) for row in _read_rows(options.jsonl)} if options.jsonl and options.jsonl.is_file() else set()
    try:
        catalogue = default_catalogue(*options.competitions_dir)
        competitions = list(_competitions(catalogue, options.ids, versions=options.versions))
    except MLEBenchError as error:
        parser.error(str(error))
    shortcuts: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for seed in range(options.seeds):
        for competition in competitions:
            own = competition.id, competition.version
            if (*own, seed, options.size) in known:
                continue
            row = _measured(competition, seed, options)
            if row is None:
                continue
            if options.jsonl is not None:
                with options.jsonl.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(row) + "\n")
            print(_line(row), flush=True)
            if row["shortcuts"]:
                shortcuts.setdefault(own, []).append(row["shortcuts"])
    if options.shortcuts:
        for competition in competitions:
            found = shortcuts.get((competition.id, competition.version), [])
            print(f"{competition.id} {competition.version} {verdict(found)}", flush=True)


def _measured(competition: Competition, seed: int, options: argparse.Namespace) -> dict[str, Any] | None:
    """What ``measure`` found in a folder of the twin's own; None, with a line, where no twin could be made."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name, "twin")
        if options.keep is not None:
            folder = options.keep / competition.id / f"{competition.version}-{seed}"
        shutil.rmtree(folder, ignore_errors=True)
        try:
            return measure(
                competition, seed, options.size, folder, baseline=options.baseline, control=options.shortcuts
            )
        except MLEBenchError as error:
            print(f"{competition.id} {competition.version} seed {seed}: {error}", flush=True)
            return None


def _read_rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _key(row: dict[str, Any]) -> tuple[str, str, int, str]:
    return row["id"], row["version"], row["seed"], row["size"]


def markdown(rows: list[dict[str, Any]]) -> str:
    """A table with a row for each competition and size: medians over the seeds, and all medals of the baseline.

    >>> row = {"id": "a", "version": "v1", "size": "small", "seed": 0, "rows": 500, "seconds": [1, 1, 2], "refused": []}
    >>> row |= {"skills": {"simple": 0.5, "baseline": 0.7}, "medals": {"baseline": "silver"}, "megabytes": 1.5}
    >>> print(markdown([row, row | {"seed": 1, "medals": {"baseline": None}}]).splitlines()[2])
    | a | 2 | 500 | 1.5 | 4.0 | 0 | 0.50 | 0.70 | silver, none |
    """
    groups: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for row in sorted(rows, key=_key):
        groups.setdefault((row["id"], row["version"], row["size"]), []).append(row)
    lines = [
        "| competition | seeds | rows | MB | CPU s | refused | simple | baseline | baseline's medals |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for (id, version, size), own in groups.items():
        notes = [version] * (version != "v1") + [size] * (size != "small")
        name = id + (f" ({', '.join(notes)})" if notes else "")
        baseline = [row for row in own if "baseline" in row["skills"]]
        cells = [
            str(len(own)),
            f"{_median(row['rows'] for row in own):.0f}",
            f"{_median(row['megabytes'] for row in own):.1f}",
            f"{_median(sum(row['seconds']) for row in own):.1f}",
            str(sum(len(row["refused"]) for row in own)),
            f"{_median(row['skills']['simple'] for row in own):.2f}",
            f"{_median(row['skills']['baseline'] for row in baseline):.2f}" if baseline else "–",
            ", ".join(row["medals"]["baseline"] or "none" for row in baseline) or "–",
        ]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _median(values: Iterable[float]) -> float:
    return float(np.median(list(values)))


def _line(row: dict[str, Any]) -> str:
    scores = " ".join(f"{name} {score:.4f}{_mark(row['medals'][name])}" for name, score in row["scores"].items())
    make, prepare, medals = row["seconds"]
    t = row["thresholds"]
    return (
        f"{row['id']} {row['version']} seed {row['seed']}: {row['rows']} rows, {row['megabytes']} MB, make {make} s, "
        f"prepare {prepare} s, medals {medals} s, {len(row['refused'])} refused, floor {row['floor']} | {scores} | "
        f"median {t['median']} bronze {t['bronze']} silver {t['silver']} gold {t['gold']}"
        + "".join(f"\n  leak: {leak}" for leak in row["leaks"])
        + "".join(f"\n  refused: {text}" for text in row["refused"])
    )


def _mark(medal: str | None) -> str:
    return "" if medal is None else f" ({medal[0]})"


if __name__ == "__main__":
    main()
