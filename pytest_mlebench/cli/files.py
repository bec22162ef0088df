"""``mlebench files`` and ``mlebench unpack``: what an agent left, as text or as files."""

from __future__ import annotations

import argparse
import logging
from pathlib import Path
from typing import Any

from pytest_mlebench.cli.common import add_options, read_settings, user_path
from pytest_mlebench.cli.trajectory import find_run
from pytest_mlebench.errors import UsageError, unusable
from pytest_mlebench.io.units import pluralize
from pytest_mlebench.records.layout import FILES, RECORD, RUN_LOG, RUNNING
from pytest_mlebench.reports.untrusted import one_line, plain
from pytest_mlebench.runs.files import open_files, unpack
from pytest_mlebench.runs.guard import group_of

logger = logging.getLogger("pytest_mlebench")

_RUN = "a run's directory, GROUP/RUN or RUN below --runs-dir; GROUP or last, if it has one run"
_SHOWN = 1 << 20
"""Bytes of a file that are printed."""
_LISTED = 10_000
_MAX_UNPACKED = 64 << 30


def add(commands: Any) -> None:
    listing = commands.add_parser("files", help="list the files that an agent left, or print one")
    listing.add_argument("run", metavar="RUN", help=_RUN)
    listing.add_argument("path", metavar="PATH", nargs="?", help="the file to print, for example code/main.py")
    add_options(listing, "--runs-dir")
    listing.set_defaults(command=_files)
    unpacking = commands.add_parser("unpack", help="write the files that an agent left to a folder",
        description="Write the files that an agent left to a new folder, as code/ and logs/. An untrusted agent wrote "
        "them: look at them before you run them, or start pytest or git in that folder.")  # fmt: skip
    unpacking.add_argument("run", metavar="RUN", help=_RUN)
    unpacking.add_argument("--to", type=user_path, metavar="DIR", required=True, help="a folder that is new or empty")
    add_options(unpacking, "--runs-dir")
    unpacking.set_defaults(command=_unpack)


def _run_dir(options: argparse.Namespace) -> Path:
    """The directory of RUN; raises UsageError for a folder that no run has left."""
    run_dir = find_run(options.run, read_settings(options).runs_dir)
    if not any((run_dir / name).is_file() for name in (RECORD, RUNNING, RUN_LOG, FILES)):
        raise UsageError(f"{options.run} is not a run's directory: it has no {RECORD}")
    return run_dir


def _files(options: argparse.Namespace) -> int:
    run_dir = _run_dir(options)
    with open_files(run_dir) as files:
        if options.path is None:
            left = files.below()
            for file in left[:_LISTED]:
                print(f"{file.size:>14,}  {one_line(file.path)}")
            if len(left) > _LISTED:
                logger.warning("and %s more", f"{len(left) - _LISTED:,}")
            if not left:
                logger.info("%s has no files of its agent beside its submission and its log", run_dir)
            return 0
        if (chosen := files.get(options.path)) is None:
            raise UsageError(f"{run_dir.name} has no file {options.path!r}: `mlebench files {options.run}` lists them")
        content = files.read(chosen.path, _SHOWN)
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
    if (group := group_of(target.resolve())) is not None:
        raise UsageError(f"--to: {target} is in the run group {group}, which holds data alone: name another folder")
    try:
        left_out = unpack(run_dir, target, max_bytes=_MAX_UNPACKED)
        with open_files(run_dir) as files:
            count = len(files.below()) - len(left_out)
    except OSError as error:
        raise UsageError(f"--to: {target} cannot be written: {unusable(error)}") from error
    for path in left_out:
        logger.warning("warning: %s was left out: another file has its name on this system", one_line(path))
    logger.info("%s in %s; an agent wrote them: look before you run anything there", pluralize(count, "file"), target)
    return 0
