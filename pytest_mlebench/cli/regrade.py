"""``mlebench regrade``: a group's stored submissions, graded again beside the first result."""

from __future__ import annotations

import argparse
import logging
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pytest_mlebench.cli.bundle import regrader
from pytest_mlebench.cli.common import GROUP_HELP, add_options, print_json, read_settings

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
    from pytest_mlebench.audit.regrade import RegradedRun, Regrading, changes
    from pytest_mlebench.reports.regraded import changes_table, not_graded_remarks, summary
    from pytest_mlebench.reports.tables import terminal_width
    from pytest_mlebench.reports.untrusted import one_line
    from pytest_mlebench.runs.group import find_group, read_group
    from pytest_mlebench.runs.json_files import write_json
    from pytest_mlebench.runs.manifest import library_versions

    settings = read_settings(options)
    group = read_group(find_group(options.group, settings.runs_dir))
    for why in group.broken:
        logger.warning("warning: %s", why)
    version = settings.version if settings.bench_version is not None else group.version
    graders = regrader(settings, version)
    graded: list[RegradedRun] = []
    not_graded: dict[str, str] = {}
    for record in group.records:
        if (obstacle := graders.obstacle(record)) is not None:
            not_graded[record.run_id] = obstacle
            continue
        report = graders.submission(record, group.folder / record.run_id)
        report = replace(report, submission_path=record.report.submission_path)
        graded.append(
            RegradedRun(
                run_id=record.run_id,
                **record.key._asdict(),
                before=record.report,
                after=report,
                changes=changes(record.report, report),
            )
        )
    result = Regrading(
        run_group=group.name,
        bench_version=version,
        regraded_at=datetime.now(UTC).isoformat(timespec="seconds"),
        versions={"pytest-mlebench": __version__, **library_versions()},
        runs=tuple(graded),
        not_graded=not_graded,
    )
    path = _new(group.folder, version)
    write_json(path, asdict(result))
    if options.json:
        print_json(asdict(result))
    else:
        if table := changes_table(result):
            print(table.text(terminal_width()))
        for remark in not_graded_remarks(result):
            print(one_line(remark))
        print(summary(result))
    logger.info("%s", path)
    return 1 if not_graded else 0


def _new(folder: Path, version: str) -> Path:
    """A file that is not there yet."""
    name = f"regraded-{version}-{datetime.now(UTC):%Y%m%dT%H%M%S}"
    path, number = folder / f"{name}.json", 1
    while path.exists():
        number += 1
        path = folder / f"{name}-{number}.json"
    return path
