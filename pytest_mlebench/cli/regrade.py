"""``mlebench regrade``: a group's stored submissions, graded again beside the first result."""

from __future__ import annotations

import argparse
import logging
from dataclasses import asdict
from typing import Any

from pytest_mlebench.cli.common import (
    GROUP_HELP,
    add_options,
    is_opened_bundle,
    note_absent,
    open_group,
    print_json,
    read_bench,
)
from pytest_mlebench.records.group import read_group
from pytest_mlebench.reports.regraded import changes_table, not_graded_remarks, summary
from pytest_mlebench.reports.tables import terminal_width
from pytest_mlebench.reports.untrusted import one_line
from pytest_mlebench.runs.regrade import regrade, write_regrading

logger = logging.getLogger("pytest_mlebench")


def add(commands: Any) -> None:
    command = commands.add_parser("regrade", help="regrade a run group's stored submissions; its results stay",
        description="Regrade a run group's stored submissions, after a grader was fixed or with another version of the "
        "benchmark. The runs' records stay; the new grades are written to regraded-*.json in the group."
        )  # fmt: skip
    command.add_argument("group", metavar="GROUP", help=GROUP_HELP)
    add_options(command, "--runs-dir", "--bench-version", "--competitions-dir", "--data-dir", "--max-submission-size",
        "--grading-memory", "--grading-time")  # fmt: skip
    command.add_argument("--json", action="store_true", help="print the result as JSON")
    command.set_defaults(command=_regrade)


def _regrade(options: argparse.Namespace) -> int:
    bench = read_bench(options)
    settings = bench.settings
    group = read_group(open_group(options.group, settings.runs_dir))
    for why in group.broken:
        logger.warning("warning: %s", why)
    version = settings.version if settings.bench_version is not None else group.version
    note_absent(bench.store)
    result = regrade(group, version, bench.regrader(version))
    is_bundle = is_opened_bundle(group.folder)
    path = None if is_bundle else write_regrading(group.folder, result)
    if options.json:
        print_json(asdict(result))
    else:
        if table := changes_table(result):
            print(table.text(terminal_width()))
        for remark in not_graded_remarks(result):
            print(one_line(remark))
        print(summary(result))
    if is_bundle:
        logger.info("not written, as a bundle stays as it is: `mlebench unbundle` makes a run group of it")
    else:
        logger.info("%s", path)
    return 1 if result.not_graded else 0
