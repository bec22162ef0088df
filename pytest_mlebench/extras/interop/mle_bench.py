"""Exports a run group to MLE-bench's format: a ``runs/`` folder for its ``aggregate_grading_reports.py``."""

from __future__ import annotations

import csv
import logging
import re
import shutil
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from pytest_mlebench.errors import UsageError
from pytest_mlebench.extras.interop.contract import ExportOption, Request
from pytest_mlebench.extras.interop.facts import cleaner
from pytest_mlebench.io.units import one_line
from pytest_mlebench.records.group import RunGroup, write_group
from pytest_mlebench.records.outcome import Outcome
from pytest_mlebench.records.record import SUBMISSION
from pytest_mlebench.runs.files import unpack
from pytest_mlebench.runs.guard import protect

logger = logging.getLogger("pytest_mlebench")

SUMMARY = "a runs/ folder for MLE-bench's aggregate_grading_reports.py"
OPTIONS: tuple[ExportOption, ...] = ()
EXPERIMENTS = "run_group_experiments.csv"


def export(group: RunGroup, request: Request) -> Iterator[str]:
    """Write a run group for each agent and seed, with its grading report, and ``run_group_experiments.csv``, in which
    the agent is the experiment. Warn about runs that MLE-bench counts differently.

    In MLE-bench, a run group has one attempt at each competition.
    """
    target, rows = request.folder(group), []
    for agent, seed in sorted({(record.agent, record.seed) for record in group.records}):
        records = [record for record in group.records if (record.agent, record.seed) == (agent, seed)]
        started = min(record.started_at for record in records)
        folder = target / f"{stamp(started)}_run-group_{file_name(group.name)}_{file_name(agent)}_seed-{seed}"
        if folder.exists():
            raise UsageError(f"{folder} exists already: name another folder with --output")
        folder.mkdir(parents=True)
        protect(folder)
        for record in records:
            run_dir, target_dir = group.folder / record.run_id, folder / record.run_id
            for skipped in unpack(run_dir, target_dir):
                logger.warning("warning: %s: skipped %s: its name is not supported", run_dir.name, one_line(skipped))
            if (run_dir / SUBMISSION).is_file() and not (run_dir / SUBMISSION).is_symlink():
                (target_dir / SUBMISSION).parent.mkdir(exist_ok=True)
                shutil.copyfile(run_dir / SUBMISSION, target_dir / SUBMISSION)
        write_group(folder, started, records)
        _clean(folder)
        report = folder / "grading_report.json"
        report.rename(folder / f"{stamp(max(record.ended_at for record in records))}_grading_report.json")
        rows.append((file_name(agent), folder.name))
        yield str(folder)
    path, known = target / EXPERIMENTS, list[tuple[str, str]]()
    with suppress(FileNotFoundError), path.open(newline="", encoding="utf-8") as file:
        known = [(row[0], row[1]) for row in list(csv.reader(file))[1:] if len(row) == 2]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(("experiment_id", "run_group"))
        writer.writerows(dict.fromkeys([*known, *rows]))
    for reason in count_differences(group):
        logger.warning("warning: %s", reason)


def count_differences(group: RunGroup) -> Iterator[str]:
    """Yield the reasons why MLE-bench's figures for the exported group differ from those in our report.

    MLE-bench takes the i-th report of a competition as seed i, so after a missing run, later seeds move up. It also
    counts errors of the harness as failures, while our reports leave out their seeds.
    """
    for key in sorted(group.planned - group.runs.keys()):
        what = f"{key.agent} lacks {key.competition_id} with seed {key.seed}"
        yield f"{what}: MLE-bench counts its later seeds as earlier ones"
    for key, record in sorted(group.runs.items()):
        if record.outcome is Outcome.error:
            what = f"{key.agent} on {key.competition_id}, seed {key.seed}"
            yield f"{what}: an error of the harness, which MLE-bench counts as a failure"


def _clean(folder: Path) -> None:
    """Mask the secrets of this environment in the runs' files; an archive that contains one is removed."""
    redactor = cleaner()
    for path in filter(Path.is_file, list(folder.rglob("*"))):
        if not redactor.file(path):
            path.unlink()
            logger.warning("warning: %s contains a secret of this environment, and is left out", path)
    for note in redactor.notes:
        logger.warning("warning: %s: %s", folder, note)


def stamp(moment: str) -> str:
    """Convert a time in ISO 8601 to the form of MLE-bench's and Inspect's file names."""
    return f"{datetime.fromisoformat(moment):%Y-%m-%dT%H-%M-%S}-UTC"


def file_name(text: str) -> str:
    """Convert a text to a part of a file name."""
    return re.sub(r"[^A-Za-z0-9.-]+", "-", text)
