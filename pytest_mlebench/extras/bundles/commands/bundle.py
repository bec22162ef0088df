"""``mlebench bundle``, and ``mlebench verify FILE``: results that others can verify."""

from __future__ import annotations

import argparse
import logging
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pytest_mlebench.cli.common import GROUP_HELP, add_options, print_json, read_bench, user_path, warn_if_missing
from pytest_mlebench.errors import UsageError
from pytest_mlebench.extras.bundles import api
from pytest_mlebench.extras.bundles.bundle import (
    KINDS,
    MAX_BYTES,
    SUFFIX,
    check_is_bundle,
    is_bundle,
    read_bundle,
    unpack,
)
from pytest_mlebench.extras.bundles.card import CheckResult, card_sections
from pytest_mlebench.io.units import format_size, parse_size, pluralize
from pytest_mlebench.reports.tables import has_colours, terminal_width
from pytest_mlebench.results import find_group, read_group

__all__ = ["add", "add_verify", "check_unused", "is_bundle", "largest", "opened", "verify"]

logger = logging.getLogger("pytest_mlebench")

_OF_BUNDLES = ("digest", "allowed_signers", "max_size", "allow_violations")


def add(commands: Any) -> None:
    command = commands.add_parser("bundle", help="pack a run group so that others can verify it")
    command.add_argument("group", metavar="GROUP", help=GROUP_HELP)
    command.add_argument(
        "-o", "--output", type=user_path, metavar="FILE.tar.zst", help="the bundle (default: GROUP.tar.zst here)"
    )
    command.add_argument("--leave-out", action="append", default=[], choices=KINDS, metavar="KIND",
        help=f"leave out {', '.join(KINDS)} (repeatable)")  # fmt: skip
    command.add_argument(
        "--sign", type=user_path, metavar="KEY", help="sign it with this SSH key, using `ssh-keygen -Y sign`"
    )
    command.add_argument("--json", action="store_true", help="print the result as JSON")
    add_options(command, "--runs-dir", "--competitions-dir", "--data-dir")
    command.set_defaults(command=_bundle)

    unbundle = commands.add_parser("unbundle", help="write the run group of a bundle to a folder")
    unbundle.add_argument("bundle", type=user_path, metavar="FILE", help="a bundle that `mlebench bundle` created")
    unbundle.add_argument(
        "--to",
        type=user_path,
        required=True,
        metavar="DIR",
        help="the folder of run groups in which to create the group",
    )
    unbundle.add_argument("--max-size", metavar="SIZE", help="maximum unpacked size (default: 256g)")
    unbundle.set_defaults(command=_unbundle)


def add_verify(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``mlebench verify`` for bundles; ``bundle`` is the file."""
    parser.add_argument(
        "bundle", nargs="?", type=user_path, metavar="FILE", help="a bundle that `mlebench bundle` created"
    )
    parser.add_argument(
        "--digest", metavar="SHA256", help="for a bundle: its published digest, which `mlebench bundle` printed"
    )
    parser.add_argument("--allowed-signers", type=user_path, metavar="FILE",
        help="for a bundle: the keys that may have signed it, as described in ssh-keygen(1)")  # fmt: skip
    parser.add_argument("--max-size", metavar="SIZE", help="for a bundle: maximum unpacked size (default: 256g)")
    parser.add_argument("--allow-violations", action="store_true", default=None,
        help="for a bundle: exit with status 0 even if the audit of its runs finds violations")  # fmt: skip


def check_unused(options: argparse.Namespace) -> None:
    """Raise UsageError if an option for bundles is used without a bundle."""
    for name in _OF_BUNDLES:
        if getattr(options, name) is not None:
            raise UsageError(f"--{name.replace('_', '-')} is only for a bundle: mlebench verify FILE")


def _bundle(options: argparse.Namespace) -> int:
    bench = read_bench(options)
    warn_if_missing(bench.store)
    group = read_group(find_group(options.group, bench.settings.runs_dir))
    for why in group.broken:
        logger.warning("warning: %s", why)
    target = options.output or Path(f"{group.name}{SUFFIX}")
    packed = api.bundle(bench, group, target, leave_out=options.leave_out, sign=options.sign)
    if options.json:
        print_json(
            {
                "file": str(target),
                "digest": packed.digest,
                "signed": packed.signature is not None,
                "files": len(packed.index.files),
                "left_out": [asdict(entry) for entry in packed.index.left_out],
            }
        )
        return 0
    size, files = format_size(target.stat().st_size), pluralize(len(packed.index.files), "file")
    print(f"{target}: {pluralize(len(group.records), 'run')}, {files}, {size}{', signed' if packed.signature else ''}")
    for entry in packed.index.left_out:
        print(f"left out: {entry.what}: {entry.files} ({entry.why})")
    print(f"sha256:{packed.digest}")
    return 0


def verify(options: argparse.Namespace) -> int:
    """Check the bundle of a command line. Return 0 if its files agree and its runs have no violation, else 1."""
    if options.competition or options.split or options.list:
        raise UsageError(f"{options.bundle} is a bundle, but -c, --split and --list choose prepared data: name one")
    if not options.bundle.is_file():
        what = f"{options.bundle} is not a file" if options.bundle.exists() else f"file not found: {options.bundle}"
        pack = "; to verify a run group, pack it with `mlebench bundle`" if options.bundle.is_dir() else ""
        raise UsageError(f"{what}; choose prepared data with -c, --split or --list{pack}")
    bench = read_bench(options)
    warn_if_missing(bench.store)
    card = api.verify(
        bench,
        options.bundle,
        digest=options.digest,
        allowed_signers=options.allowed_signers,
        max_bytes=largest(options.max_size),
    )
    if options.json:
        print_json({"result": card.verdict, "headline": card.headline, **asdict(card)})
    else:
        shown = card_sections(card)
        print("\n\n".join(section.text(terminal_width(), colours=has_colours()) for section in shown))
    return 0 if card.result is CheckResult.verified and (options.allow_violations or not card.violations) else 1


def largest(size: str | None) -> int:
    """Return the maximum unpacked size in ``--max-size``. Raises UsageError."""
    try:
        return MAX_BYTES if size is None else parse_size(size)
    except ValueError as error:
        raise UsageError(f"--max-size: {error}") from error


def _unbundle(options: argparse.Namespace) -> int:
    check_is_bundle(options.bundle)
    print(unpack(options.bundle, options.to, max_bytes=largest(options.max_size)))
    return 0


def opened(path: Path, folder: Path, *, max_bytes: int) -> Path:
    """Unpack a bundle into a folder, and return the folder of its run group. Raises DataError."""
    return read_bundle(path, folder, max_bytes=max_bytes).folder
