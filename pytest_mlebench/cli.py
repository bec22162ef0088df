"""The ``mlebench`` command: prepare data and grade submissions without pytest."""

from __future__ import annotations

import argparse
import json
import logging
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from pytest_mlebench import __version__
from pytest_mlebench.catalog import Competition, default_catalogue
from pytest_mlebench.catalog.catalogue import SPLIT_NAMES, read_ids
from pytest_mlebench.catalog.competition import FILE_NAME
from pytest_mlebench.data.store import DataStore, default_data_dir
from pytest_mlebench.errors import DataError, MLEBenchError, UsageError

logger = logging.getLogger("pytest_mlebench")

Command = Callable[[argparse.Namespace], int]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the exit status is 0, 1 where something failed, 2 where the call was wrong."""
    options = _parser().parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    command: Command = options.command
    try:
        return command(options)
    except UsageError as error:
        print(f"mlebench: {error}", file=sys.stderr)
        return 2
    except MLEBenchError as error:
        print(f"mlebench: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("mlebench: interrupted", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="mlebench", description=__doc__)
    parser.add_argument("--version", action="version", version=f"mlebench {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    prepare = commands.add_parser("prepare", help="prepare competitions' data")
    _add_selection(prepare, required=True)
    _add_data_dir(prepare)
    prepare.add_argument("--raw-dir", type=Path, help="an already unpacked download (with one competition only)")
    prepare.add_argument("--keep-raw", action="store_true", help="keep the store's raw data after preparation")
    prepare.add_argument("--skip-verification", action="store_true", help="do not compare with the known checksums")
    prepare.add_argument("--force", action="store_true", help="prepare again what is prepared")
    prepare.set_defaults(command=_prepare)

    golden = commands.add_parser("golden", help="write golden.json of competitions that you are adding")
    golden.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    golden.set_defaults(command=_golden)
    return parser


def _add_data_dir(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--data-dir", type=Path, default=default_data_dir(), help="where the data lies (default: %(default)s)"
    )


def _add_selection(parser: argparse.ArgumentParser, *, required: bool) -> None:
    which = parser.add_mutually_exclusive_group(required=required)
    which.add_argument("-c", "--competition", metavar="ID", action="append", help="one competition (repeatable)")
    which.add_argument("--lite", dest="split", action="store_const", const="lite", help="the 22 of the lite split")
    which.add_argument("--all", dest="split", action="store_const", const="all", help="all 75")
    which.add_argument("--split", help=f"one of {', '.join(SPLIT_NAMES)}, or a file with an id a line")
    which.add_argument("-l", "--list", type=Path, metavar="FILE", help="a file with an id a line")


def _selected(options: argparse.Namespace) -> list[Competition]:
    catalogue = default_catalogue()
    if options.split is not None:
        return catalogue.split(options.split)
    ids = read_ids(options.list) if options.list is not None else options.competition
    return [catalogue[id] for id in ids] if ids is not None else list(catalogue)


def _prepare(options: argparse.Namespace) -> int:
    competitions = _selected(options)
    if options.raw_dir is not None:
        if len(competitions) != 1:
            raise UsageError(f"--raw-dir goes with one competition, not with {len(competitions)}")
        if not options.raw_dir.is_dir():
            raise UsageError(f"--raw-dir {options.raw_dir} is not a folder")
    store = DataStore(options.data_dir)
    failed = 0
    for competition in competitions:
        try:
            dataset = store.prepare(
                competition, raw_dir=options.raw_dir, verify=not options.skip_verification, force=options.force
            )
        except DataError as error:
            logger.error("%s", error)
            failed += 1
        else:
            logger.info("%s is prepared in %s", competition.id, dataset.prepared)
    return 1 if failed else 0


def _golden(options: argparse.Namespace) -> int:
    from pytest_mlebench.grading.golden import make_golden

    for folder in options.folders:
        competition = Competition.load(folder / FILE_NAME)
        with tempfile.TemporaryDirectory() as scratch:
            golden = make_golden(competition, Path(scratch))
        path = folder / "golden.json"
        path.write_text(json.dumps(golden, indent=1) + "\n", encoding="utf-8")
        logger.info("%s: %d scores, %d invalid", path, len(golden["scores"]), len(golden["invalid"]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
