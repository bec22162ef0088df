"""Shared by several subcommands: options, selection of competitions, output."""

from __future__ import annotations

import argparse
import logging
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_mlebench import options as settings
from pytest_mlebench.bench import Bench
from pytest_mlebench.catalog import Catalogue, Competition
from pytest_mlebench.errors import UsageError
from pytest_mlebench.ini import find_ini_file
from pytest_mlebench.io.files import expanded, is_dir
from pytest_mlebench.io.progress import Event, Reporter, Step, WarningNote, event_text
from pytest_mlebench.io.values import json_text

if TYPE_CHECKING:
    from pytest_mlebench.data.store import DataStore

logger = logging.getLogger("pytest_mlebench")

GROUP_HELP = "a run group's folder, its name below --runs-dir or a part of it, or `last`"
GROUP_OR_BUNDLE_HELP = "a run group's folder, its name below --runs-dir or a part of it, `last`, or a bundle"
opened = ExitStack()
"""Closes what a command has opened, when the command ends."""


def user_path(text: str) -> Path:
    """Return a path from the command line, for argparse. Shells do not expand the ``~`` in ``--option=~/folder``."""
    try:
        return expanded(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def add_options(parser: argparse.ArgumentParser, *names: str) -> None:
    """Add options that pytest also has, with the same meaning and ini key."""
    for name in names:
        option = settings.OPTIONS[name]
        parser.add_argument(option.name, **option.for_argparse)


def read_settings(options: argparse.Namespace) -> settings.Settings:
    """Read the settings from the command line, pytest's ini file and the environment. Raises UsageError."""
    here = Path.cwd()
    ini = find_ini_file(here)
    return settings.read_call(options, ini=ini.values, file=ini.path, here=here, root=ini.root)


def log(event: Event) -> None:
    """A reporter that logs notes and warnings."""
    if not isinstance(event, Step):
        logger.log(logging.WARNING if isinstance(event, WarningNote) else logging.INFO, "%s", event_text(event))


def read_bench(options: argparse.Namespace, reporter: Reporter = log) -> Bench:
    """Return the benchmark with the settings of this call; it is closed when the command ends. Raises UsageError."""
    return opened.enter_context(Bench(settings=read_settings(options), reporter=reporter))


def add_selection(parser: argparse.ArgumentParser, *, required: bool) -> None:
    """Add the mutually exclusive options that select competitions. They have no ini keys."""
    which = parser.add_mutually_exclusive_group(required=required)
    which.add_argument("-c", "--competition", "--competition-id", dest="competition", metavar="ID", action="append",
        help="this competition; repeatable")  # fmt: skip
    which.add_argument(
        "--lite", dest="split", action="store_const", const="lite", help="the 22 competitions of the lite split"
    )
    which.add_argument("-a", "--all", dest="split", action="store_const", const="all", help="all 75 competitions")
    which.add_argument("--split", metavar="NAME", help=settings.OPTIONS["--split"].help)
    which.add_argument("-l", "--list", type=user_path, metavar="FILE", help="a file with one id per line")
    add_options(parser, "--competitions-dir", "--bench-version")


def selected(options: argparse.Namespace, catalogue: Catalogue) -> list[Competition]:
    """Return the selected competitions, without duplicates; by default, the whole catalogue."""
    if options.split is not None:
        return catalogue.split(options.split)
    if options.list is not None:
        return catalogue.listed(options.list)
    return [catalogue[id] for id in dict.fromkeys(options.competition or catalogue.ids)]


def warn_if_missing(store: DataStore) -> None:
    """Warn if the data folder does not exist: nothing was prepared yet, or its name has a typo."""
    if not is_dir(store.root):
        logger.warning("there is no data folder %s", store.root)


def inert_json(value: Any) -> str:
    """Return JSON without ``##`` and ``::``, which CI systems may execute as commands. The escapes mean the same."""
    return json_text(value).replace("##", "#\\u0023").replace("::", ":\\u003a")


def print_json(value: Any) -> None:
    print(inert_json(value))


def write_output(text: str, path: Path | None) -> None:
    """Write to the file of ``--output``, or else to standard output. Raises UsageError.

    Standard output is UTF-8 if it is a pipe or file and the locale lacks characters, since HTML pages declare UTF-8.
    """
    if path is None:
        if hasattr(sys.stdout, "reconfigure") and not sys.stdout.isatty():
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
