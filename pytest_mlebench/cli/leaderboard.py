"""``mlebench leaderboard``: whether the bundled thresholds are those of Kaggle's private leaderboards."""

from __future__ import annotations

import argparse
import logging
import math
from typing import Any

from pytest_mlebench.catalog import Competition
from pytest_mlebench.catalog.leaderboard import MEDALS, Leaderboard
from pytest_mlebench.cli.common import add_selection, print_json, read_bench, selected
from pytest_mlebench.data.download.kaggle import KaggleDownloads
from pytest_mlebench.errors import DataError, UsageError
from pytest_mlebench.io.progress import Note
from pytest_mlebench.io.units import pluralize
from pytest_mlebench.reports.progress import Lines

logger = logging.getLogger("pytest_mlebench")

_FIELDS = ("teams", *MEDALS, "median")
_HEADS = ("competition", "leaderboard", *_FIELDS, "differs")


def add(commands: Any) -> None:
    leaderboard = commands.add_parser("leaderboard", help="compare the bundled thresholds with Kaggle's leaderboards")
    add_selection(leaderboard, required=True)
    leaderboard.add_argument("--json", action="store_true", help="print as JSON")
    leaderboard.set_defaults(command=_leaderboard)

    dev = commands.add_parser("dev")  # MLE-bench's: no help, so that it is not listed
    dev.add_argument("words", nargs=argparse.REMAINDER)
    dev.set_defaults(command=_dev)


def _dev(options: argparse.Namespace) -> int:
    called = " ".join(["dev", *options.words])
    raise UsageError(
        f"`{called}` is not offered: `mlebench leaderboard` downloads leaderboards and compares "
        "the bundled thresholds with them, without changing anything"
    )


def _leaderboard(options: argparse.Namespace) -> int:
    chosen = selected(options, read_bench(options).catalogue)
    downloads = KaggleDownloads()
    downloads.credentials()
    found: dict[str, dict[str, Any]] = {}
    reporter = Lines()
    for competition in chosen:
        try:
            scores = downloads.leaderboard(competition, reporter)
            reporter(Note(f"{competition.id}: {pluralize(len(scores), 'team')}"))  # all of them take minutes
            found[competition.id] = _compare(competition, scores)
        except DataError as error:
            logger.error("%s", error)
            found[competition.id] = {"error": str(error)}
    if options.json:
        print_json(found)
    else:
        _print_table(found)
    return 1 if any("error" in comparison for comparison in found.values()) else 0


def _compare(competition: Competition, scores: list[float]) -> dict[str, Any]:
    lower_is_better = competition.lower_is_better
    bundled, kaggle = competition.leaderboard, Leaderboard.from_scores(scores, lower_is_better=lower_is_better)
    return {
        "bundled": {name: getattr(bundled, name) for name in _FIELDS},
        "kaggle": {name: getattr(kaggle, name) for name in _FIELDS},
        "differs": [name for name in _FIELDS if not _same(getattr(bundled, name), getattr(kaggle, name))],
    }


def _same(bundled: float, kaggle: float) -> bool:
    # Kaggle ranks by five decimals, and that many are bundled.
    return math.isclose(bundled, kaggle, rel_tol=0, abs_tol=0.5e-5 + 1e-12)


def _print_table(found: dict[str, dict[str, Any]]) -> None:
    rows = [_HEADS]
    for id, comparison in found.items():
        for which in ("bundled", "kaggle") if "error" not in comparison else ():
            scores = [f"{comparison[which][name]:.5f}" for name in _FIELDS[1:]]
            differs = ", ".join(comparison["differs"]) or "nothing"
            label, verdict = (id, "") if which == "bundled" else ("", differs)
            rows.append((label, which, str(comparison[which]["teams"]), *scores, verdict))
    widths = [max(len(row[k]) for row in rows) for k in range(len(_HEADS))]
    for row in rows:
        cells = [
            cell.rjust(width) if head in _FIELDS else cell.ljust(width)
            for head, cell, width in zip(_HEADS, row, widths, strict=True)
        ]
        print("  ".join(cells).rstrip())
