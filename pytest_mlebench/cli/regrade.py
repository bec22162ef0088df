"""``mlebench regrade``: a group's stored submissions, graded again beside the first result."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_mlebench.cli.bundle import regrader
from pytest_mlebench.cli.common import GROUP_HELP, add_options, print_json, read_settings
from pytest_mlebench.units import format_score, pluralize

if TYPE_CHECKING:
    from pytest_mlebench.runs.record import RunRecord

logger = logging.getLogger("pytest_mlebench")


def add(commands: Any) -> None:
    command = commands.add_parser("regrade", help="grade a run group's stored submissions again, beside its results",
        description="Grade a run group's stored submissions again, after a grader was mended or with another version "
        "of the benchmark. What the runs recorded stays: the new grades are written to regraded-*.json in the group."
        )  # fmt: skip
    command.add_argument("group", metavar="GROUP", help=GROUP_HELP)
    add_options(command, "--runs-dir", "--bench-version", "--competitions-dir", "--data-dir", "--max-submission-size",
        "--grading-memory", "--grading-time")  # fmt: skip
    command.add_argument("--json", action="store_true", help="print the result as JSON")
    command.set_defaults(command=_regrade)


def _regrade(options: argparse.Namespace) -> int:
    from pytest_mlebench._version import __version__
    from pytest_mlebench.audit.regrade import differences
    from pytest_mlebench.runs.group import find_group, read_group
    from pytest_mlebench.runs.json_files import write_json
    from pytest_mlebench.runs.manifest import library_versions

    settings = read_settings(options)
    group = read_group(find_group(options.group, settings.runs_dir))
    version = settings.version if settings.bench_version is not None else group.version
    graders = regrader(settings, version)
    graded: list[dict[str, Any]] = []
    not_graded: dict[str, str] = {}
    for record in group.records:
        if (obstacle := graders.obstacle(record)) is not None:
            not_graded[record.run_id] = obstacle
            continue
        report = graders.submission(record, group.folder / record.run_id)
        report = replace(report, submission_path=record.report.submission_path)
        changed = differences(record.report, report)
        changed += [] if record.report.error == report.error or changed else _other_reason(record, report.error)
        graded.append(
            {**_key(record), "before": record.report.to_json(), "after": report.to_json(), "changes": changed}
        )
    result = {
        "run_group": group.name,
        "bench_version": version,
        "regraded_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": {"pytest-mlebench": __version__, **library_versions()},
        "runs": graded,
        "not_graded": not_graded,
    }
    path = _new(group.folder, version)
    write_json(path, result)
    if options.json:
        print_json(result)
    else:
        _show(graded, not_graded)
    logger.info("%s", path)
    return 1 if not_graded else 0


def _other_reason(record: RunRecord, error: str | None) -> list[str]:
    """A missing file is named by its path, which is another one where the group was moved."""
    if not record.report.submission_exists:
        return []
    return [f"invalid for another reason: {error}"]


def _key(record: RunRecord) -> dict[str, Any]:
    return {
        "run_id": record.run_id,
        "agent": record.agent,
        "competition_id": record.competition_id,
        "seed": record.seed,
    }


def _new(folder: Path, version: str) -> Path:
    """A file that is not there yet."""
    name = f"regraded-{version}-{datetime.now(UTC):%Y%m%dT%H%M%S}"
    path, number = folder / f"{name}.json", 1
    while path.exists():
        number += 1
        path = folder / f"{name}-{number}.json"
    return path


def _show(graded: list[dict[str, Any]], not_graded: Mapping[str, str]) -> None:
    from pytest_mlebench.reports.tables import Table, terminal_width
    from pytest_mlebench.reports.untrusted import one_line

    changed = [run for run in graded if run["changes"]]
    if changed:
        rows = [
            (
                run["competition_id"],
                run["agent"],
                str(run["seed"]),
                *(f"{format_score(run[when]['score'])} {_medal(run[when])}".strip() for when in ("before", "after")),
                "; ".join(run["changes"]),
            )
            for run in changed
        ]
        heads = ("competition", "agent", "seed", "before", "after", "changes")
        print(Table(heads, rows, frozenset({"seed"}), ("changes",)).text(terminal_width()))
    for run_id, why in not_graded.items():
        print(one_line(f"{run_id}: not graded: {why}"))
    print(f"{pluralize(len(graded), 'run')} graded again, {len(changed)} with another grade")


def _medal(report: Mapping[str, Any]) -> str:
    return next((name for name in ("gold", "silver", "bronze") if report[f"{name}_medal"]), "")
