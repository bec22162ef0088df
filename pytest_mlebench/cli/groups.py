"""``mlebench groups``, ``watch``, ``files``, ``unpack`` and ``trajectory``: run groups, and the output of agents."""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from pytest_mlebench.bench import Bench, bundle_at
from pytest_mlebench.cli import common
from pytest_mlebench.cli.common import logger
from pytest_mlebench.errors import UsageError, reason, unusable
from pytest_mlebench.io.files import expanded, real_path, regular_bytes
from pytest_mlebench.io.units import one_line, plain, pluralize
from pytest_mlebench.io.values import loads
from pytest_mlebench.llm.trajectory import TRAJECTORY, build
from pytest_mlebench.records.group import GroupReader, group_folders
from pytest_mlebench.records.record import FILES, RECORD, RUN_LOG, RUNNING
from pytest_mlebench.reports.progress import progress
from pytest_mlebench.reports.run_details import markdown, page
from pytest_mlebench.reports.tables import Table, terminal_width
from pytest_mlebench.results import LAST, find_group, read_group
from pytest_mlebench.runs.files import open_files, unpack
from pytest_mlebench.runs.guard import group_of
from pytest_mlebench.runs.writer import annotate_group, delete_group, existing_group, rename_group

SHOWN = 5
"""Maximum number of runs that an error lists to choose from."""
_RUN = "a run's directory, GROUP/RUN or RUN below --runs-dir; GROUP or last, if it has one run"
_MAX_PRINTED = 1 << 20
"""Maximum bytes of a file that are printed."""
_MAX_LISTED = 10_000
_MAX_UNPACKED = 64 << 30
_MAX_TRAJECTORY = 256 << 20
"""Maximum bytes of a trajectory; those that a run writes are smaller."""
_LONGEST_INTERVAL = 24 * 3600
_REDRAW = "\033[H\033[J"
FORMATS: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "md": markdown,
    "html": page,
    "atif": lambda trajectory: common.inert_json(trajectory) + "\n",
}


def add(commands: Any) -> None:
    groups = commands.add_parser(
        "groups", help="list the run groups, the most recent last; rename, delete or annotate one"
    )
    common.add_options(groups, "--runs-dir")
    groups.add_argument("--json", action="store_true", help="print the list as JSON")
    which = groups.add_mutually_exclusive_group()
    which.add_argument("--rename", nargs=2, metavar=("OLD", "NEW"),
        help="rename a group: its folder, manifest and records; if the folder was renamed by hand, give its new "
        "name twice")  # fmt: skip
    which.add_argument("--delete", metavar="NAME", help="delete a group and all its files")
    which.add_argument("--note", nargs=2, metavar=("NAME", "TEXT"), dest="annotate",
        help="set the note at the top of a group's report")  # fmt: skip
    groups.set_defaults(command=_groups)

    watch = commands.add_parser("watch", help="show the progress of a run group live")
    watch.add_argument("group", metavar="GROUP", help=common.GROUP_HELP)
    common.add_options(watch, "--runs-dir")
    watch.add_argument(
        "--interval", type=float, default=2.0, metavar="SECONDS", help="time between updates (default: 2)"
    )
    watch.add_argument(
        "--once",
        action="store_true",
        help="show the progress once; this is the default if the output is not a terminal",
    )
    watch.set_defaults(command=_watch)

    listing = commands.add_parser("files", help="list the files that an agent left, or print one")
    listing.add_argument("run", metavar="RUN", help=_RUN)
    listing.add_argument("path", metavar="PATH", nargs="?", help="the file to print, for example code/main.py")
    common.add_options(listing, "--runs-dir")
    listing.set_defaults(command=_files)

    unpacking = commands.add_parser("unpack", help="write the files that an agent left to a folder",
        description="Write the files that an agent left to a new folder, as code/ and logs/. An untrusted agent wrote "
        "them: look at them before you run them, or start pytest or git in that folder.")  # fmt: skip
    unpacking.add_argument("run", metavar="RUN", help=_RUN)
    unpacking.add_argument(
        "--to", type=common.user_path, metavar="DIR", required=True, help="a folder that is new or empty"
    )
    common.add_options(unpacking, "--runs-dir")
    unpacking.set_defaults(command=_unpack)

    command = commands.add_parser("trajectory", help="show the messages of a run: its agent and its models")
    command.add_argument("run", metavar="RUN", help=f"{_RUN}; or BUNDLE/RUN")
    command.add_argument(
        "--format",
        choices=FORMATS,
        default="md",
        help="md (readable text), html (a page) or atif (Agent Trajectory Interchange Format) (default: md)",
    )
    common.add_options(command, "--runs-dir")
    command.add_argument(
        "-o", "--output", type=common.user_path, metavar="FILE", help="write to this file instead of standard output"
    )
    command.set_defaults(command=_trajectory)


def _trajectory(options: argparse.Namespace) -> int:
    run_dir = find_run(options.run, common.read_bench(options))
    text = FORMATS[options.format](_read(run_dir))
    common.write_output(text, options.output)
    return 0


def find_run(name: str, bench: Bench) -> Path:
    """Return the directory of a run, given as a path, GROUP/RUN, or RUN below ``runs_dir``. Raises UsageError."""
    if (run_dir := _in_bundle(name, bench)) is not None:
        return run_dir
    runs_dir = bench.settings.runs_dir
    try:
        for folder in (expanded(name), runs_dir / name):
            if folder.is_dir():
                return _only_run(folder)
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot search for run {name!r}: {reason(error)}") from error
    found = [path for path in runs_dir.glob("*/*") if path.name == name and path.is_dir()]
    if len(found) == 1:
        return found[0]
    if found:
        raise UsageError(f"run {name} is in several groups: {', '.join(path.parent.name for path in found)}; name one")
    if name == LAST:
        return _only_run(find_group(name, runs_dir))
    raise UsageError(f"run {name} does not exist, neither as a directory nor below {runs_dir}")


def _in_bundle(name: str, bench: Bench) -> Path | None:
    """Return the directory of a run in a bundle: FILE if it has one run, or FILE/RUN. Raises UsageError."""
    bundle, _, run_id = name.rpartition("/")
    if bundle_at(name) is not None:
        return _only_run(bench.group_folder(name), name)
    if not bundle or bundle_at(bundle) is None:
        return None
    runs = {path.parent.name: path.parent for path in bench.group_folder(bundle).glob(f"*/{RECORD}")}
    if run_id not in runs:
        raise UsageError(f"{bundle} has no run {run_id!r}: it has {', '.join(sorted(runs)[:SHOWN]) or 'none'}")
    return runs[run_id]


def _only_run(folder: Path, name: str = "") -> Path:
    """Return the folder, or its only run if it is a run group. Raises UsageError that lists the runs if it has more."""
    runs = sorted({path.parent for file in (RECORD, RUNNING) for path in folder.glob(f"*/{file}")})
    if len(runs) < 2:
        return runs[0] if runs else folder
    more = ", …" if len(runs) > SHOWN else ""
    names = ", ".join(path.name for path in runs[:SHOWN])
    group = name or folder
    raise UsageError(f"{group} has {len(runs)} runs; name one, for example {group}/{runs[0].name} ({names}{more})")


def _read(run_dir: Path) -> Mapping[str, Any]:
    """Return the run's ``trajectory.json``, or build it from the recording if the run was interrupted."""
    path = run_dir / TRAJECTORY
    if path.is_file():
        try:
            found = loads(regular_bytes(path, _MAX_TRAJECTORY, follow_links=False))
        except (OSError, ValueError) as error:
            raise UsageError(f"{path} cannot be read: {reason(error)}") from error
        if not isinstance(found, dict) or not isinstance(found.get("steps"), list):
            raise UsageError(f"{path} is not a trajectory: it has no steps")
        return found
    built = build(run_dir, agent="agent")
    if built is None:
        raise UsageError(
            f"{run_dir} has no trajectory: its agent made no model calls through the gateway, "
            "or they were not recorded (--llm-record)"
        )
    return built


def _groups(options: argparse.Namespace) -> int:
    runs_dir = common.read_settings(options).runs_dir
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
        return _list(runs_dir, as_json=options.json)
    return 0


def _list(runs_dir: Path, *, as_json: bool) -> int:
    found: list[dict[str, Any]] = []
    unreadable = False
    for folder in group_folders(runs_dir):
        try:
            group = read_group(folder)
        except UsageError as error:
            logger.warning("warning: %s", error)
            unreadable = True
            continue
        for problem in group.broken:
            logger.warning("warning: %s", problem)
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
    if as_json:
        common.print_json(found)
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
            row["name"],
            row["created_at"][:19].replace("T", " "),
            ", ".join(row["agents"]),
            f"{row['finished']} of {row['planned']}",
            str(row["medals"]),
        )
        for row in found
    ]
    print(Table(heads, rows, frozenset({"finished", "medals"}), ("created", "medals")).text(terminal_width()))
    return 0


def _watch(options: argparse.Namespace) -> int:
    if not 0.1 <= options.interval <= _LONGEST_INTERVAL:
        raise UsageError(f"--interval: {options.interval:g} must be from 0.1 to {_LONGEST_INTERVAL:,} seconds")
    if bundle_at(options.group) is not None:
        raise UsageError(f"{options.group} is a bundle, which does not change: `mlebench report` shows its results")
    reader = GroupReader(find_group(options.group, common.read_settings(options).runs_dir))
    if options.once or not sys.stdout.isatty():
        print(progress(reader))
        return 0
    with suppress(KeyboardInterrupt):
        while True:
            size = shutil.get_terminal_size()
            lines = progress(reader, width=size.columns).splitlines()
            print(_REDRAW + "\n".join(lines[: size.lines - 1]), flush=True)
            time.sleep(options.interval)
    return 0


def _run_dir(options: argparse.Namespace) -> Path:
    """Return the directory of RUN. Raises UsageError if it is not a run's directory."""
    run_dir = find_run(options.run, common.read_bench(options))
    if not any((run_dir / name).is_file() for name in (RECORD, RUNNING, RUN_LOG, FILES)):
        raise UsageError(f"{options.run} is not a run's directory: it has no {RECORD}")
    return run_dir


def _files(options: argparse.Namespace) -> int:
    run_dir = _run_dir(options)
    with open_files(run_dir) as files:
        if options.path is None:
            found = files.below()
            for file in found[:_MAX_LISTED]:
                print(f"{file.size:>14,}  {one_line(file.path)}")
            if len(found) > _MAX_LISTED:
                logger.warning("and %s more", f"{len(found) - _MAX_LISTED:,}")
            if not found:
                logger.info("%s has no files from its agent except its submission and its log", run_dir)
            return 0
        if (chosen := files.get(options.path)) is None:
            raise UsageError(f"{run_dir.name} has no file {options.path!r}: `mlebench files {options.run}` lists them")
        content = files.read(chosen.path, _MAX_PRINTED)
    if b"\0" in content[:8192]:
        raise UsageError(f"{options.path} is not text: `mlebench unpack {options.run} --to=DIR` writes it to a folder")
    text = plain(content.decode("utf-8", "replace"))
    print(text, end="" if text.endswith("\n") else "\n")
    if chosen.size > len(content):
        logger.warning("%s more bytes are not shown", f"{chosen.size - len(content):,}")
    return 0


def _unpack(options: argparse.Namespace) -> int:
    run_dir = _run_dir(options)
    target: Path = options.to
    if (group := group_of(real_path(target))) is not None:
        raise UsageError(f"--to: {target} is in the run group {group}, which is only for its runs: name another folder")
    try:
        skipped = unpack(run_dir, target, max_bytes=_MAX_UNPACKED)
        with open_files(run_dir) as files:
            count = len(files.below()) - len(skipped)
    except OSError as error:
        raise UsageError(f"--to: {target} cannot be written: {unusable(error)}") from error
    for path in skipped:
        logger.warning("warning: skipped %s: this system does not support its name, or has it already", one_line(path))
    logger.info("%s in %s; an untrusted agent wrote them: review them first", pluralize(count, "file"), target)
    return 0
