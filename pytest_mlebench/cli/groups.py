"""``mlebench groups``: lists, renames, deletes and annotates run groups."""

from __future__ import annotations

import argparse
import logging
from typing import Any

from pytest_mlebench.cli.common import add_options, read_settings
from pytest_mlebench.errors import UsageError
from pytest_mlebench.io.json_files import json_text
from pytest_mlebench.records.group import group_folders, read_group
from pytest_mlebench.reports.tables import Table, terminal_width
from pytest_mlebench.runs.management import annotate_group, delete_group, existing_group, rename_group

logger = logging.getLogger("pytest_mlebench")


def add(commands: Any) -> None:
    groups = commands.add_parser(
        "groups", help="list the run groups, the most recent last; rename, delete or annotate one"
    )
    add_options(groups, "--runs-dir")
    groups.add_argument("--json", action="store_true", help="print the list as JSON")
    which = groups.add_mutually_exclusive_group()
    which.add_argument("--rename", nargs=2, metavar=("OLD", "NEW"),
        help="rename a group: its folder, its manifest and its records; where a folder was renamed by hand, give its "
        "name twice")  # fmt: skip
    which.add_argument("--delete", metavar="NAME", help="delete a group with everything in it")
    which.add_argument("--note", nargs=2, metavar=("NAME", "TEXT"), dest="annotate",
        help="set the note at the top of a group's report")  # fmt: skip
    groups.set_defaults(command=_groups)


def _groups(options: argparse.Namespace) -> int:
    runs_dir = read_settings(options).runs_dir
    if options.rename is not None:
        old, new = options.rename
        print(rename_group(existing_group(old, runs_dir), new))
    elif options.delete is not None:
        folder = existing_group(options.delete, runs_dir)
        delete_group(folder)
        print(f"deleted {folder}")
    elif options.annotate is not None:
        name, text = options.annotate
        annotate_group(existing_group(name, runs_dir), text)
    else:
        return _list(options)
    return 0


def _list(options: argparse.Namespace) -> int:
    runs_dir = read_settings(options).runs_dir
    found: list[dict[str, Any]] = []
    unreadable = False
    for folder in group_folders(runs_dir):
        try:
            group = read_group(folder)
        except UsageError as error:
            logger.warning("warning: %s", error)
            unreadable = True
            continue
        for reason in group.broken:
            logger.warning("warning: %s", reason)
        found.append(
            {
                "name": group.name,
                "created_at": group.manifest.created_at,
                "agents": list(group.agents),
                "finished": len(group.runs),
                "planned": len(group.planned | group.runs.keys()),
                "medals": sum(record.report.any_medal for record in group.records),
            }
        )
    if options.json:
        print(json_text(found))
        return 0
    if runs_dir.exists() and not runs_dir.is_dir():
        raise UsageError(f"--runs-dir: {runs_dir} is not a folder")
    if not found and unreadable:
        return 1
    if not found:
        raise UsageError(f"there is no run group below {runs_dir}; name another folder with --runs-dir")
    heads = ("group", "created", "agents", "finished", "medals")
    rows = [
        (
            own["name"],
            own["created_at"][:19].replace("T", " "),
            ", ".join(own["agents"]),
            f"{own['finished']} of {own['planned']}",
            str(own["medals"]),
        )
        for own in found
    ]
    print(Table(heads, rows, frozenset({"finished", "medals"}), ("created", "medals")).text(terminal_width()))
    return 0
