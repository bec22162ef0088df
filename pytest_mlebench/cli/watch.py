"""``mlebench watch``: the progress of a run group."""

from __future__ import annotations

import argparse
import math
import shutil
import sys
import time
from contextlib import suppress
from typing import Any

from pytest_mlebench.cli.common import GROUP_HELP, add_options, bundle_at, read_settings
from pytest_mlebench.errors import UsageError
from pytest_mlebench.records.group import GroupReader, find_group
from pytest_mlebench.reports.watch import progress

_REDRAW = "\033[H\033[J"


def add(commands: Any) -> None:
    watch = commands.add_parser("watch", help="show live what each worker of a run group is doing")
    watch.add_argument("group", metavar="GROUP", help=GROUP_HELP)
    add_options(watch, "--runs-dir")
    watch.add_argument("--interval", type=float, default=2.0, metavar="SECONDS", help="between updates (default: 2)")
    watch.add_argument(
        "--once", action="store_true", help="show it once, as happens anyway when the output is not a terminal"
    )
    watch.set_defaults(command=_watch)


def _watch(options: argparse.Namespace) -> int:
    if not 0.1 <= options.interval < math.inf:
        raise UsageError(f"--interval: {options.interval:g} must be at least 0.1 seconds")
    if bundle_at(options.group) is not None:
        raise UsageError(f"{options.group} is a bundle, which does not change: `mlebench report` shows its results")
    reader = GroupReader(find_group(options.group, read_settings(options).runs_dir))
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
