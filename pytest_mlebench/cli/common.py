"""What several sub-commands share: options, choosing competitions, output."""

from __future__ import annotations

import argparse
import io
import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_mlebench import settings
from pytest_mlebench._paths import expanded
from pytest_mlebench.catalog import Catalogue, Competition
from pytest_mlebench.catalog.catalogue import read_ids
from pytest_mlebench.data.folders import is_dir
from pytest_mlebench.errors import UsageError
from pytest_mlebench.ini import find_ini_file
from pytest_mlebench.json_values import json_text

if TYPE_CHECKING:
    from pytest_mlebench.data.store import DataStore

logger = logging.getLogger("pytest_mlebench")

GROUP_HELP = "a run group's folder, its name below --runs-dir or a part of it, or `last`"


def user_path(text: str) -> Path:
    """A path of the command line, for argparse; shells leave the ``~`` of ``--option=~/folder`` as it is."""
    try:
        return expanded(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def add_options(parser: argparse.ArgumentParser, *names: str) -> None:
    """Options that pytest has too: same meaning, same ini key."""
    for name in names:
        option = settings.OPTIONS[name]
        parser.add_argument(option.name, **option.for_argparse)


def read_settings(options: argparse.Namespace) -> settings.Settings:
    """The settings of this call: command line, ini file as pytest finds it, environment. Raises UsageError."""
    here = Path.cwd()
    ini = find_ini_file(here)
    sources = [
        settings.from_command_line(options, here),
        settings.from_ini(ini.values, ini.path, here),
        settings.from_environment(here),
    ]
    return settings.read(sources, runs_dir=ini.root / "reports")


def add_selection(parser: argparse.ArgumentParser, *, required: bool) -> None:
    """Ways to choose competitions, of which one may be used; no ini key takes part."""
    which = parser.add_mutually_exclusive_group(required=required)
    which.add_argument("-c", "--competition", "--competition-id", dest="competition", metavar="ID", action="append",
        help="this competition; repeatable")  # fmt: skip
    which.add_argument("--lite", dest="split", action="store_const", const="lite", help="the 22 of the lite split")
    which.add_argument("-a", "--all", dest="split", action="store_const", const="all", help="all 75")
    which.add_argument("--split", metavar="NAME", help=settings.OPTIONS["--split"].help)
    which.add_argument("-l", "--list", type=user_path, metavar="FILE", help="a file with one id per line")
    add_options(parser, "--competitions-dir", "--bench-version")


def selected(options: argparse.Namespace, catalogue: Catalogue) -> list[Competition]:
    """The chosen competitions, each once; without a choice all of the catalogue."""
    if options.split is not None:
        return catalogue.split(options.split)
    ids = read_ids(options.list) if options.list is not None else options.competition
    return [catalogue[id] for id in dict.fromkeys(ids)] if ids is not None else list(catalogue)


def note_absent(store: DataStore) -> None:
    """Mention a data folder that is not there: nothing was prepared yet, or its name has a typo."""
    if not is_dir(store.root):
        logger.warning("there is no data folder %s", store.root)


def print_json(value: Any) -> None:
    print(json_text(value))


def write_output(text: str, path: Path | None) -> None:
    """Write to the file of ``--output``, or else to standard output. Raises UsageError.

    A pipe or a file that standard output is takes UTF-8 where the locale has not all characters: a page says that it
    is UTF-8.
    """
    if path is None:
        if isinstance(sys.stdout, io.TextIOWrapper) and not sys.stdout.isatty():
            try:
                text.encode(sys.stdout.encoding)
            except UnicodeEncodeError:
                sys.stdout.reconfigure(encoding="utf-8")
        print(text, end="")
        return
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--output: {path} cannot be written: {error.strerror}") from error
    logger.info("%s", path)
