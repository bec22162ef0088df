"""``mlebench serve-episodes``."""

from __future__ import annotations

import argparse
import os
from contextlib import suppress
from typing import Any

from pytest_mlebench.cli.common import add_options, read_bench
from pytest_mlebench.errors import UsageError
from pytest_mlebench.io.processes import sigterm_interrupts

PORT = 7576
TOKEN = "MLEBENCH_EPISODES_TOKEN"


def add(commands: Any) -> None:
    command = commands.add_parser(
        "serve-episodes",
        help="serve episodes over HTTP on this machine, for trainers in other processes",
        description="Serves episodes of competitions (reset, step, submit) as JSON on 127.0.0.1. Clients need the "
        f"token that it prints, or that of the variable {TOKEN}. Ctrl-C ends the server and its episodes.",
    )
    command.add_argument("--port", type=int, default=PORT, metavar="N", help=f"0 for any free port (default: {PORT})")
    command.add_argument(
        "--max-episodes", type=int, default=8, metavar="N", help="maximum number of open episodes (default: 8)"
    )
    add_options(command, "--sandbox", "--data-dir", "--competitions-dir", "--runs-dir", "--base-image", "--network",
        "--build-network", "--cpus", "--memory", "--disk", "--gpus", "--gpu-ids", "--runtime")  # fmt: skip
    command.set_defaults(command=_serve)


def _serve(options: argparse.Namespace) -> int:
    if not 0 <= options.port < 65536:
        raise UsageError(f"--port: {options.port} is not between 0 and 65535")
    if options.max_episodes < 1:
        raise UsageError(f"--max-episodes: {options.max_episodes} is not an integer of at least 1")
    from pytest_mlebench.extras.training.server import EpisodeServer

    token = os.environ.get(TOKEN, "")
    server = EpisodeServer(read_bench(options), port=options.port, token=token, max_episodes=options.max_episodes)
    print(server.url, flush=True)
    if not token:
        print(f"{TOKEN}={server.token}", flush=True)
    with sigterm_interrupts(), suppress(KeyboardInterrupt):  # the usual way to end it
        server.serve()
    return 0
