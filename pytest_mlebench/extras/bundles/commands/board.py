"""``mlebench board BUNDLE… --out=DIR``: a leaderboard as a static site."""

from __future__ import annotations

import argparse
from typing import Any

from pytest_mlebench.cli.common import add_options, read_bench, user_path, warn_if_missing
from pytest_mlebench.extras.bundles.board.build import TITLE, board
from pytest_mlebench.extras.bundles.commands.bundle import largest
from pytest_mlebench.io.units import pluralize
from pytest_mlebench.reports.progress import Lines


def add(commands: Any) -> None:
    command = commands.add_parser("board", help="build a leaderboard from bundles, as a static site",
        description="Verify and audit bundles, and write a leaderboard of them as a static site. Bundles that fail "
        "are listed with the reason; they do not change the exit status.")  # fmt: skip
    command.add_argument(
        "bundles", nargs="+", type=user_path, metavar="BUNDLE", help="a bundle, or a folder of bundles"
    )
    command.add_argument(
        "--out",
        type=user_path,
        required=True,
        metavar="DIR",
        help="the site's folder: new, empty, or a site built before",
    )
    command.add_argument(
        "--allowed-signers",
        type=user_path,
        metavar="FILE",
        help="show only bundles signed by one of these keys, as described in ssh-keygen(1)",
    )
    command.add_argument("--max-size", metavar="SIZE", help="maximum unpacked size of a bundle (default: 256g)")
    add_options(command, "--title", "--competitions-dir", "--data-dir")
    command.set_defaults(command=_board)


def _board(options: argparse.Namespace) -> int:
    bench = read_bench(options, Lines())
    warn_if_missing(bench.store)
    rows, rejected = board(
        bench,
        options.bundles,
        options.out,
        title=bench.settings.title or TITLE,
        max_bytes=largest(options.max_size),
        allowed_signers=options.allowed_signers,
    )
    verified = [row for row in rows if not row.is_reported]
    ranked = sum(row.rank is not None for row in verified)
    unranked = len(verified) - ranked
    reasons = " (the site gives the reasons)" if unranked else ""
    print(f"{options.out / 'index.html'}: {pluralize(ranked, 'ranked row')}, {unranked} not comparable{reasons}")
    for one in rejected:
        print(f"not shown: {one.file}: {one.verdict}")
    return 0
