"""``mlebench export``: a run group in forms that other programs read."""

from __future__ import annotations

import argparse
import logging
from pathlib import Path
from typing import Any

from pytest_mlebench.cli.common import GROUP_HELP, add_options, open_group, read_settings, user_path
from pytest_mlebench.errors import UsageError, unusable
from pytest_mlebench.extras.interop import export
from pytest_mlebench.io.json_files import write_json
from pytest_mlebench.records.group import read_group
from pytest_mlebench.results.grading_report import write_group

logger = logging.getLogger("pytest_mlebench")

_FORMS = ("mle-bench", "inspect", "atif")


def add(commands: Any) -> None:
    command = commands.add_parser("export", help="write a run group as other programs read it")
    command.add_argument("group", metavar="GROUP", help=GROUP_HELP)
    command.add_argument("--to", choices=_FORMS, required=True,
        help="mle-bench (a runs/ folder for its aggregate_grading_reports.py), inspect (logs for `inspect view`) or "
        "atif (trajectories)")  # fmt: skip
    command.add_argument(
        "-o", "--output", type=user_path, metavar="DIR", help="folder to write to (default: GROUP-FORM)"
    )
    add_options(command, "--runs-dir")
    command.set_defaults(command=_export)


def _export(options: argparse.Namespace) -> int:
    group = read_group(open_group(options.group, read_settings(options).runs_dir))
    for why in group.broken:
        logger.warning("warning: %s", why)
    if not group.records:
        raise UsageError(f"{group.folder} has no run that has ended: there is nothing to export")
    target = options.output or Path(f"{group.name}-{options.to}")
    try:
        target.mkdir(parents=True, exist_ok=True)
        if options.to == "mle-bench":
            written = export.export_mle_bench(group, target, write_group)
            for why in export.counted_otherwise(group):
                logger.warning("warning: %s", why)
        elif options.to == "atif":
            written = export.export_atif(group, target)
            if not written:
                raise UsageError(f"no run of {group.name} has a trajectory: its agents called no recorded models")
        else:
            written = []
            for name, log in export.inspect_logs(group):
                write_json(target / f"{name}.json", log)
                written.append(target / f"{name}.json")
    except OSError as error:
        raise UsageError(f"{target} cannot be written: {unusable(error)}") from error
    for path in written:
        print(path)
    return 0
