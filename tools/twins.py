"""Measures the cost of twins, the quality of their data, and which agents earn medals without knowing the original.

python -m tools.twins ID ... [--seeds 2] [--size small] [--versions] [--baseline] [--solvers] [--shortcuts]
                      [--jsonl FILE]
python -m tools.twins --markdown FILE

With --jsonl, each twin is one line of the file. Twins that already have a line are skipped, so an interrupted command
can be repeated. All twins of one seed are generated before those of the next. --markdown prints the lines as a table.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import math
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pytest_mlebench import Catalogue, Competition, default_catalogue
from pytest_mlebench.data.dataset import replace_by_level
from pytest_mlebench.errors import InvalidSubmission, MLEBenchError
from pytest_mlebench.gate.leaks import find_leaks
from pytest_mlebench.grading.scorer import Scorer
from pytest_mlebench.grading.twins import TwinMedals, as_submission, make_twin, read_sample
from pytest_mlebench.io.units import pluralize
from tools.shortcuts import permuted, shortcut_auc, verdict
from tools.solvers import SOLVERS

ROOT = Path(__file__).parents[1]
BASELINE = ROOT / "agents/baseline"
SOLVER_SECONDS = 300

Agent = Callable[[Path, Path], tuple[Path, float]]
"""Solves the competition in a public folder. Returns the submission, written to a second folder, and CPU seconds."""


def measure(
    competition: Competition,
    seed: int,
    size: str,
    folder: Path,
    *,
    agents: Mapping[str, Agent],
    control: bool = False,
) -> dict[str, Any]:
    """Generate a twin in the folder, and return its table row: costs, scores and medals.

    With ``control``, the agents and the baseline also learn from permuted labels.
    """
    twin = make_twin(competition, folder, seed, size)
    assert twin.medals is not None
    dataset, board = twin.dataset, twin.medals.leaderboard
    tables = {"sample": read_sample(dataset)} | {
        name: as_submission(table, read_sample(dataset)) for name, table in twin.predictions.items()
    }
    scorer, seconds = Scorer(competition, dataset.answers), dict[str, float]()
    scores = {name: _graded(scorer, table, folder) for name, table in tables.items()}
    for name, agent in agents.items():
        path, seconds[name] = agent(dataset.public, folder / name)
        scores[name] = _score(scorer, path)
    if control and permuted(dataset, folder / "permuted", np.random.default_rng(seed)):
        for name, agent in ({"baseline": run_baseline} | dict(agents)).items():
            path, _ = agent(folder / "permuted", folder / f"{name}-permuted")
            scores["permuted" if name == "baseline" else f"{name} permuted"] = _score(scorer, path)
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
        "skills": {
            name: 0.0 if math.isnan(score) else round(twin.medals.skill(score), 3) for name, score in scores.items()
        },
        "above": {name: above_floor(twin.medals, scores[name]) for name in agents},
        "agent_seconds": {name: round(value, 1) for name, value in seconds.items()},
        "leaks": find_leaks(dataset),  # in the files that runs receive
        "shortcuts": found,
    }


def above_floor(medals: TwinMedals, score: float) -> float:
    """Distance of a score above the floor, in standard errors of predictions that are assigned to the wrong rows."""
    sign = -1 if medals.leaderboard.lower_is_better else 1
    controls = np.array([own for own in medals.controls if math.isfinite(own)])
    error = max(float(np.std(controls, ddof=1)), 1e-9) if len(controls) > 1 else math.nan
    return 0.0 if math.isnan(score) else round(sign * (score - medals.curve[0]) / error, 2)


def _graded(scorer: Scorer, table: pd.DataFrame, folder: Path) -> float:
    path = folder / "submission.csv"
    table.to_csv(path, index=False)
    return _score(scorer, path)


def _score(scorer: Scorer, path: Path) -> float:
    """NaN for an invalid submission. An agent's may be invalid, and so are some sample submissions."""
    try:
        return float(scorer.score(path))
    except InvalidSubmission:
        return math.nan


def digest(folder: Path) -> str:
    """Digest of the names and contents of a folder's files."""
    found = hashlib.sha256()
    for path in sorted(_files(folder)):
        found.update(f"{path.relative_to(folder)}\0{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return found.hexdigest()[:16]


def _files(*folders: Path) -> Iterator[Path]:
    return (path for folder in folders for path in folder.rglob("*") if path.is_file())


def run_baseline(public: Path, folder: Path) -> tuple[Path, float]:
    """Run the bundled baseline on a public folder, in this environment. Returns its submission and CPU seconds."""
    env = {f"{name}_DIR": str(folder / name.lower()) for name in ("SUBMISSION", "LOGS", "CODE")}
    env |= {"DATA_DIR": str(public), "TIME_LIMIT_SECS": "600", "OMP_NUM_THREADS": "1", "AGENT_DIR": str(BASELINE)}
    cpu = _cpu_seconds([sys.executable, str(BASELINE / "baseline.py")], env)
    return folder / "submission/submission.csv", cpu


def run_solver(id: str, public: Path, folder: Path) -> tuple[Path, float]:
    """Run the competition's solver on a public folder. Returns its submission and CPU seconds."""
    folder.mkdir()
    path = folder / "submission.csv"
    command = [sys.executable, "-m", "tools.solvers", id, str(public), str(path)]
    cpu = _cpu_seconds(
        command, {"PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]), "OMP_NUM_THREADS": "1"}, SOLVER_SECONDS
    )
    if not path.is_file():
        raise MLEBenchError(f"the solver left no submission within {SOLVER_SECONDS} s: {' '.join(command)}")
    return path, cpu


def _cpu_seconds(command: list[str], env: dict[str, str], timeout: float | None = None) -> float:
    """Run a command and return its CPU seconds, even if it fails or times out."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with contextlib.suppress(subprocess.TimeoutExpired):
        subprocess.run(command, env=os.environ | env, capture_output=True, check=False, timeout=timeout)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _competitions(catalogue: Catalogue, ids: list[str], *, versions: bool) -> Iterator[Competition]:
    for id in ids or [c.id for c in catalogue if c.file("twin.py").is_file()]:
        first = catalogue[id]
        yield from (first.of_version(v) for v in (first.versions if versions else first.versions[:1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ids", nargs="*", metavar="ID", help="competitions (default: all with a twin)")
    parser.add_argument("--competitions-dir", action="append", default=[], metavar="DIR", help="repeatable")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--size", default="small", choices=["micro", "small", "medium"])
    parser.add_argument("--versions", action="store_true", help="include version 2 of the benchmark")
    parser.add_argument("--baseline", action="store_true", help="run the bundled baseline on each twin")
    parser.add_argument("--solvers", action="store_true", help="run the solvers written for each kind of problem")
    parser.add_argument("--shortcuts", action="store_true",
        help="score a model on metadata alone, and the baseline and solvers on permuted labels")  # fmt: skip
    parser.add_argument("--keep", type=Path, help="keep the data in this folder")
    parser.add_argument("--jsonl", type=Path, help="append each line to this file as JSON")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="print a file written by --jsonl as a table")
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
    """Call ``measure`` in a new folder. Prints the error and returns None if no twin could be generated."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name, "twin")
        if options.keep is not None:
            folder = options.keep / competition.id / f"{competition.version}-{seed}"
        shutil.rmtree(folder, ignore_errors=True)
        agents: dict[str, Agent] = {"baseline": run_baseline} if options.baseline else {}
        if options.solvers and competition.id in SOLVERS:
            agents["solver"] = partial(run_solver, competition.id)
        try:
            return measure(competition, seed, options.size, folder, agents=agents, control=options.shortcuts)
        except MLEBenchError as error:
            print(f"{competition.id} {competition.version} seed {seed}: {error}", flush=True)
            return None


def _read_rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _key(row: dict[str, Any]) -> tuple[str, str, int, str]:
    return row["id"], row["version"], row["seed"], row["size"]


def markdown(rows: list[dict[str, Any]]) -> str:
    """Summary of the rows, and a table with one row for each competition and size (medians over the seeds).

    ``above`` is the number of seeds for which the baseline is more than two standard errors above the floor.

    >>> row = {"id": "a", "version": "v1", "size": "small", "seed": 0, "rows": 500, "seconds": [1, 1, 2], "refused": []}
    >>> row |= {"skills": {"simple": 0.5, "baseline": 0.7, "solver": 0.9}, "megabytes": 1.5, "above": {"baseline": 3.0}}
    >>> row["medals"] = {"sample": None, "baseline": "silver", "permuted": None}
    >>> row |= {"scores": {"permuted": 0.4}, "thresholds": {"median": 0.3, "bronze": 0.5, "gold": 0.9}}
    >>> text = markdown([row, row | {"seed": 1, "medals": {"sample": None, "baseline": None}}])
    >>> print(text.splitlines()[2])
    - With permuted labels, 1 competition: medals for none; above the median: a (permuted), a (permuted).
    >>> print(text.splitlines()[-1])
    | a | 2 | 500 | 1.5 | 4.0 | 0 | 0.50 | 0.70 | 0.90 | 2 | silver, none |
    """
    groups: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for row in sorted(rows, key=_key):
        groups.setdefault((row["id"], row["version"], row["size"]), []).append(row)
    lines = [
        *_summary(rows),
        "",
        "| competition | seeds | rows | MB | CPU s | refused | simple | baseline | solver | above | medals |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
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
            *(_skill(own, agent) for agent in ("baseline", "solver")),
            str(sum(map(_is_above, baseline))),
            ", ".join(row["medals"]["baseline"] or "none" for row in baseline) or "–",
        ]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _summary(rows: list[dict[str, Any]]) -> Iterator[str]:
    """One line for each seed, one for permuted labels, and one for all rows."""
    for seed in sorted({row["seed"] for row in rows}):
        own = [row for row in rows if row["seed"] == seed]
        medals = [row["medals"].get("baseline") for row in own]
        yield (
            f"- Seed {seed}: {len(own)} twins; the baseline is above the floor in {sum(map(_is_above, own))}, with "
            f"{len(medals) - medals.count(None)} medals, {medals.count('gold')} of them gold."
        )
    if control := [(row, name) for row in rows for name in row["scores"] if name.endswith("permuted")]:
        medals = [f"{row['id']} ({name})" for row, name in control if row["medals"].get(name)]
        above = [f"{row['id']} ({name})" for row, name in control if _is_above_median(row, name)]
        yield (
            f"- With permuted labels, {pluralize(len({row['id'] for row, _ in control}), 'competition')}: medals for "
            f"{', '.join(medals) or 'none'}; above the median: {', '.join(above) or 'none'}."
        )
    worlds = len(rows) + sum(len(row["refused"]) for row in rows)
    seconds = [sum(row["seconds"]) for row in rows]
    yield (
        f"- The sample submission earns {sum(row['medals']['sample'] is not None for row in rows)} medals. Of {worlds} "
        f"worlds, {worlds - len(rows)} were refused. Generating, preparing, medals: {_median(seconds):.1f} s of CPU "
        f"time in the median, {max(seconds):.1f} s at most; {max(row['megabytes'] for row in rows):.0f} MB at most."
    )


def _is_above(row: dict[str, Any]) -> bool:
    return bool(row.get("above", {}).get("baseline", 0) > 2)


def _is_above_median(row: dict[str, Any], name: str) -> bool:
    thresholds, score = row["thresholds"], row["scores"][name]
    rises = thresholds["gold"] > thresholds["bronze"]
    return bool(score > thresholds["median"] if rises else score < thresholds["median"])


def _skill(rows: list[dict[str, Any]], agent: str) -> str:
    known = [row["skills"][agent] for row in rows if agent in row["skills"]]
    return f"{_median(known):.2f}" if known else "–"


def _median(values: Iterable[float]) -> float:
    return float(np.median(list(values)))


def _line(row: dict[str, Any]) -> str:
    scores = " ".join(f"{name} {score:.4f}{_mark(row['medals'][name])}" for name, score in row["scores"].items())
    skills = " ".join(f"{name} {row['skills'][name]:.2f}" for name in row["agent_seconds"])
    make, prepare, medals = row["seconds"]
    t = row["thresholds"]
    return (
        f"{row['id']} {row['version']} seed {row['seed']}: {row['rows']} rows, {row['megabytes']} MB, make {make} s, "
        f"prepare {prepare} s, medals {medals} s, {len(row['refused'])} refused, floor {row['floor']} | {scores} | "
        f"median {t['median']} bronze {t['bronze']} silver {t['silver']} gold {t['gold']}"
        + (f" | skill: {skills}" if skills else "")
        + "".join(f"\n  leak: {leak}" for leak in row["leaks"])
        + "".join(f"\n  refused: {text}" for text in row["refused"])
    )


def _mark(medal: str | None) -> str:
    return "" if medal is None else f" ({medal[0]})"


if __name__ == "__main__":
    main()
