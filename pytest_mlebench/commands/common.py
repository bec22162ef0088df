"""What several subcommands share: choosing competitions, naming the data directory, printing JSON."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from pytest_mlebench.catalog import Competition, default_catalogue
from pytest_mlebench.catalog.catalogue import SPLIT_NAMES, read_ids
from pytest_mlebench.data.store import default_data_dir
from pytest_mlebench.results.record import json_text


def add_selection(parser: argparse.ArgumentParser, *, required: bool) -> None:
    which = parser.add_mutually_exclusive_group(required=required)
    which.add_argument("-c", "--competition", metavar="ID", action="append", help="one competition (repeatable)")
    which.add_argument("--lite", dest="split", action="store_const", const="lite", help="the 22 of the lite split")
    which.add_argument("--all", dest="split", action="store_const", const="all", help="all 75")
    which.add_argument("--split", help=f"one of {', '.join(SPLIT_NAMES)}, or a file with an id a line")
    which.add_argument("-l", "--list", type=Path, metavar="FILE", help="a file with an id a line")


def selected(options: argparse.Namespace) -> list[Competition]:
    catalogue = default_catalogue()
    if options.split is not None:
        return catalogue.split(options.split)
    ids = read_ids(options.list) if options.list is not None else options.competition
    return [catalogue[id] for id in ids] if ids is not None else list(catalogue)


def add_data_dir(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--data-dir", type=Path, default=default_data_dir(), help="where the data lies (default: %(default)s)"
    )


def print_json(value: Any) -> None:
    print(json_text(value))


def add_runs_dir(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--runs-dir", type=Path, default=Path("reports"), metavar="DIR", help="where run groups lie (default: reports)"
    )
