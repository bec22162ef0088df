"""``mlebench watch``: a run group as it goes on."""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from contextlib import suppress
from typing import Any

from pytest_mlebench.commands.common import add_runs_dir
from pytest_mlebench.results.group import find_group
from pytest_mlebench.results.watching import progress

_REDRAW = "\033[H\033[J"


def add(commands: Any) -> None:
    watch = commands.add_parser("watch", help="show live what each worker of a run group does")
    watch.add_argument("group", metavar="GROUP", help="a run group's folder, or its name below --runs-dir")
    add_runs_dir(watch)
    watch.add_argument("--interval", type=float, default=2.0, metavar="SECONDS", help="between looks (2)")
    watch.add_argument("--once", action="store_true", help="look once; so also where the output is no terminal")
    watch.set_defaults(command=_watch)


def _watch(options: argparse.Namespace) -> int:
    folder = find_group(options.group, options.runs_dir)
    if options.once or not sys.stdout.isatty():
        print(progress(folder))
        return 0
    with suppress(KeyboardInterrupt):
        while True:
            size = shutil.get_terminal_size()
            lines = progress(folder, width=size.columns).splitlines()
            print(_REDRAW + "\n".join(lines[: size.lines - 1]), flush=True)
            time.sleep(max(0.1, options.interval))
    return 0
