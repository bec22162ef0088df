"""``mlebench prepare`` and ``list``: the competitions and their data."""

from __future__ import annotations

import argparse
import logging
from pathlib import Path
from typing import Any

from pytest_mlebench.catalog import Competition
from pytest_mlebench.catalog.leaderboard import MEDALS
from pytest_mlebench.commands.common import add_data_dir, add_selection, print_json, selected
from pytest_mlebench.data.store import Dataset, DataStore
from pytest_mlebench.errors import DataError, UsageError

logger = logging.getLogger("pytest_mlebench")


def add(commands: Any) -> None:
    prepare = commands.add_parser("prepare", help="prepare competitions' data")
    add_selection(prepare, required=True)
    add_data_dir(prepare)
    prepare.add_argument(
        "--raw-dir",
        type=Path,
        help="an already unpacked download, with one competition only; files that need no change are hard-linked",
    )
    prepare.add_argument("--keep-raw", action="store_true", help="keep the store's raw data after preparation")
    prepare.add_argument("--skip-verification", action="store_true", help="do not compare with the known checksums")
    prepare.add_argument("--json", action="store_true", help="print what was done as JSON")
    prepare.add_argument("--force", action="store_true", help="prepare again what is prepared")
    prepare.set_defaults(command=_prepare)

    listing = commands.add_parser("list", help="show the competitions")
    add_selection(listing, required=False)
    add_data_dir(listing)
    listing.add_argument("--json", action="store_true", help="as JSON")
    listing.set_defaults(command=_list)


def _prepare(options: argparse.Namespace) -> int:
    competitions = selected(options)
    if options.raw_dir is not None:
        if len(competitions) != 1:
            raise UsageError(f"--raw-dir goes with one competition, not with {len(competitions)}")
        if not options.raw_dir.is_dir():
            raise UsageError(f"--raw-dir {options.raw_dir} is not a folder")
    store = DataStore(options.data_dir)
    done: dict[str, Any] = {}
    for competition in competitions:
        try:
            dataset = store.prepare(
                competition,
                raw_dir=options.raw_dir,
                verify=not options.skip_verification,
                force=options.force,
                keep_raw=options.keep_raw,
            )
        except DataError as error:
            logger.error("%s", error)
            done[competition.id] = {"prepared": False, "error": str(error)}
        else:
            logger.info("%s: prepared in %s%s", competition.id, dataset.prepared, _verification(dataset))
            done[competition.id] = {"prepared": True, "path": str(dataset.prepared), "verified": dataset.is_verified}
    if options.json:
        print_json(done)
    return 0 if all(result["prepared"] for result in done.values()) else 1


def _verification(dataset: Dataset) -> str:
    if dataset.is_verified is False:
        return " (it is not the reference's data: checksums differ)"
    return " (checksums hold)" if dataset.is_verified and dataset.competition.checksums else ""


def _list(options: argparse.Namespace) -> int:
    store = DataStore(options.data_dir)
    rows = [_list_row(competition, store.dataset(competition)) for competition in selected(options)]
    if options.json:
        print_json(rows)
        return 0
    heads = ("id", "split", "category", "metric", "direction", "teams", *MEDALS, "median", "state")
    table = [heads, *(tuple(str(row[head]) for head in heads) for row in rows)]
    widths = [max(len(line[k]) for line in table) for k in range(len(heads))]
    for line in table:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
    return 0


def _list_row(competition: Competition, dataset: Dataset) -> dict[str, Any]:
    leaderboard = competition.leaderboard
    state = "absent"
    if dataset.is_prepared:
        state = {True: "prepared", False: "prepared (not the reference's)", None: "prepared"}[dataset.is_verified]
    elif competition.source == "bundled":
        state = "bundled"
    elif dataset.raw.is_dir():
        state = "raw"
    return {
        "id": competition.id,
        "title": competition.title,
        "split": competition.split,
        "category": competition.category,
        "metric": competition.metric,
        "direction": competition.direction,
        "teams": leaderboard.teams,
        "gold": leaderboard.gold,
        "silver": leaderboard.silver,
        "bronze": leaderboard.bronze,
        "median": leaderboard.median,
        "state": state,
        "known_issues": list(competition.known_issues),
    }
