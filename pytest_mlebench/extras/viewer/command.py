"""``mlebench view``: a local web application over run groups."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from pytest_mlebench.bench import bundle_at
from pytest_mlebench.cli.common import add_options, read_bench, user_path
from pytest_mlebench.errors import UsageError
from pytest_mlebench.io.extensions import needs_extra

PORT = 7575


def add(commands: Any) -> None:
    view = commands.add_parser(
        "view", help="browse run groups, also live: runs, trajectories, logs, files, comparisons"
    )
    view.add_argument(
        "runs_dir",
        nargs="?",
        type=user_path,
        metavar="RUNS_DIR",
        help="the folder of run groups, one of them, or a bundle (reports)",
    )
    view.add_argument("--port", type=int, default=PORT, metavar="N", help=f"0 for any free port (default: {PORT})")
    view.add_argument(
        "--address",
        default="127.0.0.1",
        metavar="IP",
        help="address to listen on (default: 127.0.0.1); others require a token, which the printed URL contains",
    )
    view.add_argument("--open", action="store_true", help="open a browser")
    add_options(view, "--data-dir")
    view.set_defaults(command=_view)


def _view(options: argparse.Namespace) -> int:
    if not 0 <= options.port < 65536:
        raise UsageError(f"--port: {options.port} is not between 0 and 65535")
    with needs_extra("the command view", "view"):  # a late import, so that other commands need no web server
        from pytest_mlebench.extras.viewer.server import serve
    bench = read_bench(options)
    settings = bench.settings
    if options.mlebench_data_dir is not None and settings.data_dir is not None and not settings.data_dir.is_dir():
        raise UsageError(f"--data-dir: {settings.data_dir} is not a folder")
    runs_dir = options.runs_dir or settings.runs_dir
    if bundle_at(runs_dir) is not None:
        runs_dir = bench.group_folder(runs_dir)

    def ready(url: str) -> None:
        print(f"{url}\nshowing the run groups in {runs_dir}; press Ctrl-C to stop", flush=True)
        if options.open:
            import webbrowser

            if not webbrowser.open(url):
                print("could not open a browser: open the address yourself", file=sys.stderr)

    serve(runs_dir, data_dir=settings.data_dir, address=options.address, port=options.port, ready=ready)
    return 0
