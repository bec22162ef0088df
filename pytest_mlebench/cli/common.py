"""Shared by several subcommands: options, selection of competitions, output."""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from pytest_mlebench import options as settings
from pytest_mlebench.bench import Bench
from pytest_mlebench.catalog import Catalogue, Competition
from pytest_mlebench.catalog.catalogue import read_ids
from pytest_mlebench.errors import UsageError, reason
from pytest_mlebench.ini import find_ini_file
from pytest_mlebench.io.extensions import load_extension
from pytest_mlebench.io.files import expanded, is_dir, remove_tree
from pytest_mlebench.io.progress import Reporter, silent
from pytest_mlebench.io.values import json_text
from pytest_mlebench.results import find_group

if TYPE_CHECKING:
    from pytest_mlebench.data.store import DataStore

logger = logging.getLogger("pytest_mlebench")

GROUP_HELP = "a run group's folder, its name below --runs-dir or a part of it, `last`, or a bundle"
_MAX_UNPACKED = 64 << 30
"""Maximum unpacked size of a bundle that a command opens, in bytes."""
_bundles: dict[Path, Path] = {}
"""The unpacked folder of each open bundle."""


class Bundles(Protocol):
    """The interface of the extra for bundles, which is a module found by its entry point."""

    def add_verify(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments of ``mlebench verify`` for bundles; ``bundle`` is the file."""

    def check_unused(self, options: argparse.Namespace) -> None:
        """Raise UsageError if an option for bundles is used without a bundle."""

    def verify(self, options: argparse.Namespace) -> int:
        """Verify the bundle in a command line; returns the exit status."""

    def is_bundle(self, path: Path) -> bool:
        """Return whether a file is a bundle, or claims to be one."""

    def opened(self, path: Path, folder: Path, *, max_bytes: int) -> Path:
        """Unpack a bundle into a folder, and return the folder of its run group. Raises DataError."""


def bundles_extra() -> Bundles | None:
    """Return the extra for bundles; None if it is not installed."""
    found: Bundles | None = load_extension("mlebench.plugins", "bundles")
    return found


@contextmanager
def opened_bundles() -> Iterator[None]:
    """Delete the bundles that were unpacked in this context when it ends."""
    try:
        yield
    finally:
        while _bundles:
            _delete(_bundles.popitem()[1].parent)


def _delete(folder: Path) -> None:
    try:
        remove_tree(folder, ignore_errors=False)
    except OSError as error:
        logger.warning("warning: %s was not deleted completely: %s", folder, reason(error))


def open_group(name: str, runs_dir: Path) -> Path:
    """Return the folder of a run group (see ``find_group``), or of a bundle, unpacked until the command ends.

    Raises UsageError, and DataError for an invalid bundle.
    """
    path = bundle_at(name)
    if path is None:
        return find_group(name, runs_dir)
    if path not in _bundles and (bundles := bundles_extra()) is not None:
        scratch = Path(tempfile.mkdtemp(prefix="mlebench-bundle-"))
        try:
            folder = bundles.opened(path, scratch, max_bytes=_MAX_UNPACKED)
        except BaseException:
            _delete(scratch)
            raise
        _bundles[path] = folder
        logger.info("%s: not verified; `mlebench verify` does that", path)
    return _bundles[path]


def bundle_at(name: str) -> Path | None:
    """Return the path of a bundle if the name is one."""
    try:
        path = expanded(name)
        found = name and path.is_file() and (bundles := bundles_extra()) is not None and bundles.is_bundle(path)
        return path.resolve() if found else None
    except (OSError, ValueError):
        return None


def is_opened_bundle(folder: Path) -> bool:
    """Return whether a group's folder is an unpacked bundle, which is deleted when the command ends."""
    return folder in _bundles.values()


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


def read_bench(options: argparse.Namespace, reporter: Reporter = silent) -> Bench:
    """Return the benchmark with the settings of this call. Raises UsageError."""
    return Bench(settings=read_settings(options), reporter=reporter)


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
    ids = read_ids(options.list) if options.list is not None else options.competition
    return [catalogue[id] for id in dict.fromkeys(ids)] if ids is not None else list(catalogue)


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
