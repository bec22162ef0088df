"""``mlebench bundle``, and ``mlebench verify FILE``: results that others can verify."""

from __future__ import annotations

import argparse
import logging
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_mlebench import factories
from pytest_mlebench.cli.common import GROUP_HELP, add_options, note_absent, print_json, read_settings, user_path
from pytest_mlebench.errors import UsageError
from pytest_mlebench.json_values import json_text, loads
from pytest_mlebench.units import format_size, parse_size, pluralize

if TYPE_CHECKING:
    from pytest_mlebench.audit.regrade import Regrader
    from pytest_mlebench.runs.group import RunGroup
    from pytest_mlebench.settings import Settings

logger = logging.getLogger("pytest_mlebench")

_KINDS = ("submissions", "snapshots", "ledgers", "recordings", "trajectories", "code", "logs")
_OF_BUNDLES = ("digest", "allowed_signers", "max_size")


def add(commands: Any) -> None:
    command = commands.add_parser("bundle", help="pack a run group so that others can verify it")
    command.add_argument("group", metavar="GROUP", help=GROUP_HELP)
    command.add_argument(
        "-o", "--output", type=user_path, metavar="FILE.tar.zst", help="the bundle (default: GROUP.tar.zst here)"
    )
    command.add_argument("--leave-out", action="append", default=[], choices=_KINDS, metavar="KIND",
        help=f"leave out {', '.join(_KINDS)} (repeatable)")  # fmt: skip
    command.add_argument(
        "--sign", type=user_path, metavar="KEY", help="sign it with this SSH key, by `ssh-keygen -Y sign`"
    )
    command.add_argument("--json", action="store_true", help="print as JSON")
    add_options(command, "--runs-dir")
    command.set_defaults(command=_bundle)


def add_verify(parser: argparse.ArgumentParser) -> None:
    """What ``mlebench verify`` takes for a bundle."""
    parser.add_argument(
        "bundle", nargs="?", type=user_path, metavar="FILE", help="a bundle that `mlebench bundle` made"
    )
    parser.add_argument("--digest", metavar="SHA256", help="of a bundle: the digest that was published with it")
    parser.add_argument("--allowed-signers", type=user_path, metavar="FILE",
        help="of a bundle: the keys that may have signed it, as ssh-keygen(1) describes")  # fmt: skip
    parser.add_argument(
        "--max-size", metavar="SIZE", help="of a bundle: the most that it may unpack to (default: 256g)"
    )


def check_unused(options: argparse.Namespace) -> None:
    """Raises UsageError for an option of bundles without a bundle."""
    for name in _OF_BUNDLES:
        if getattr(options, name) is not None:
            raise UsageError(f"--{name.replace('_', '-')} is of a bundle: mlebench verify FILE")


def _bundle(options: argparse.Namespace) -> int:
    from pytest_mlebench.audit.bundle import SUFFIX, TABLES, write_bundle
    from pytest_mlebench.runs.group import find_group, read_group

    folder = find_group(options.group, read_settings(options).runs_dir)
    group = read_group(folder)
    for why in group.broken:
        logger.warning("warning: %s", why)
    target = options.output or Path(f"{group.name}{SUFFIX}")
    made = write_bundle(
        folder,
        target,
        leave_out=options.leave_out,
        extra={TABLES: json_text(group_files(group)[TABLES]).encode()},
        missing_runs=len(group.planned - group.runs.keys()),
        key=options.sign,
    )
    if options.json:
        print_json(
            {
                "file": str(target),
                "digest": made.digest,
                "signed": made.signature is not None,
                "files": len(made.index.files),
                "left_out": [asdict(own) for own in made.index.left_out],
            }
        )
        return 0
    size, files = format_size(target.stat().st_size), pluralize(len(made.index.files), "file")
    print(f"{target}: {pluralize(len(group.records), 'run')}, {files}, {size}{', signed' if made.signature else ''}")
    for own in made.index.left_out:
        print(f"left out: {own.what}: {own.files} ({own.why})")
    print(f"sha256:{made.digest}")
    return 0


def verify(options: argparse.Namespace) -> int:
    """Check the bundle of a command line; 0 where everything is verified, else 1."""
    from pytest_mlebench.audit import verify as verification
    from pytest_mlebench.audit.bundle import MAX_BYTES, is_bundle, read_bundle
    from pytest_mlebench.audit.card import Result
    from pytest_mlebench.reports.fairness import card_sections
    from pytest_mlebench.reports.tables import has_colours, terminal_width

    if options.competition or options.split or options.list:
        raise UsageError(f"{options.bundle} is a bundle, and -c, --split and --list choose prepared data: name one")
    if not options.bundle.is_file():
        what = f"{options.bundle} is not a file" if options.bundle.exists() else f"there is no file {options.bundle}"
        pack = "; to verify a run group, pack it with `mlebench bundle`" if options.bundle.is_dir() else ""
        raise UsageError(f"{what}; prepared data is chosen by -c, --split or --list{pack}")
    if not is_bundle(options.bundle):
        raise UsageError(f"{options.bundle} is no bundle: `mlebench bundle` makes one")
    settings = read_settings(options)
    digest = options.digest and options.digest.removeprefix("sha256:")
    try:
        largest = MAX_BYTES if options.max_size is None else parse_size(options.max_size)
    except ValueError as error:
        raise UsageError(f"--max-size: {error}") from error
    with tempfile.TemporaryDirectory(prefix="mlebench-verify-") as scratch:
        bundle = read_bundle(options.bundle, Path(scratch), max_bytes=largest)
        card = verification.verify(
            bundle,
            cache(lambda version: regrader(settings, version)),
            files=group_files,
            digest=digest,
            allowed_signers=options.allowed_signers,
        )
    if options.json:
        print_json({"result": card.result, **asdict(card)})
    else:
        shown = card_sections(card)
        print("\n\n".join(own.text(terminal_width(), colours=has_colours()) for own in shown))
    return 0 if card.result is Result.verified else 1


def regrader(settings: Settings, version: str) -> Regrader:
    """What grades submissions of a version of the benchmark again."""
    from pytest_mlebench.audit.regrade import Regrader

    of_version = replace(settings, bench_version=version.removeprefix("v"))
    store = factories.data_store(settings)
    note_absent(store)
    return Regrader(factories.catalogue(of_version), store, factories.grading_options(settings))


def group_files(group: RunGroup) -> Mapping[str, Any]:
    """What a group's reports and tables must hold according to its records, by file name."""
    from pytest_mlebench.audit.bundle import TABLES
    from pytest_mlebench.reports.json_report import to_json
    from pytest_mlebench.results.grading_report import write_group
    from pytest_mlebench.results.overview import overview

    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / group.name
        folder.mkdir()
        write_group(folder, group.manifest.created_at, group.records)
        files: dict[str, Any] = {path.name: loads(path.read_bytes()) for path in folder.iterdir()}
    view = to_json(overview([group]))
    return {**files, TABLES: {name: view[name] for name in ("summaries", "costs", "timelines")}}
