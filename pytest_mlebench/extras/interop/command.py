"""``mlebench export``: converts run groups and competitions for other programs and experiment trackers."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, cast

from pytest_mlebench import options as settings
from pytest_mlebench.cli import common
from pytest_mlebench.errors import UsageError, unusable
from pytest_mlebench.extras.interop import contract
from pytest_mlebench.extras.interop.contract import Exporter, Request
from pytest_mlebench.io.extensions import extensions
from pytest_mlebench.reports.progress import Lines

_FOR_COMPETITIONS = ("--data", "--data-dir", "--data-source", "--description", "--time-limit", "--cpus", "--memory",
    "--disk", "--gpus", "--network", "--allow-host", "--base-image", "--max-submission-size", "--grading-memory",
    "--grading-time")  # fmt: skip


def add(commands: Any) -> None:
    command = commands.add_parser("export", help="convert run groups or competitions for other programs")
    command.add_argument("group", nargs="*", metavar="GROUP", help=common.GROUP_OR_BUNDLE_HELP)
    known = _loadable()
    command.add_argument(
        "--to",
        choices=sorted(extensions(contract.EXPORTERS)),
        required=True,
        help="; ".join(f"{name}: {one.SUMMARY}" for name, one in known.items()),
    )
    command.add_argument(
        "-o",
        "--output",
        type=common.user_path,
        metavar="DIR",
        help="folder to write to (default: GROUP-FORMAT; for competitions: FORMAT-tasks)",
    )
    for name, (option, users) in _options(known).items():
        command.add_argument(
            name,
            dest=name,
            help=f"with --to={' or '.join(users)}: {option.help}",
            **({"metavar": option.metavar} if option.metavar else {"action": "store_const", "const": ""}),
        )
    common.add_options(command, "--runs-dir")
    common.add_selection(command.add_argument_group("competitions, for formats that export them"), required=False)
    common.add_options(command, *_FOR_COMPETITIONS)
    command.set_defaults(command=_export)


def _loadable() -> dict[str, Exporter]:
    """The exporters by name, except third-party ones that cannot be loaded: choosing one of those reports why."""
    found = {}
    for name in sorted(extensions(contract.EXPORTERS)):
        with suppress(UsageError):
            found[name] = contract.exporter(name)
    return found


def _options(exporters: dict[str, Exporter]) -> dict[str, tuple[contract.ExportOption, list[str]]]:
    """Each option once, with the names of the exporters that have it."""
    found: dict[str, tuple[contract.ExportOption, list[str]]] = {}
    for name, one in exporters.items():
        for option in one.OPTIONS:
            found.setdefault(option.name, (option, []))[1].append(name)
    return found


def _export(options: argparse.Namespace) -> int:
    chosen = contract.exporter(options.to)
    request = Request(to=options.to, output=options.output, options=_given(options, chosen))
    if contract.takes_competitions(chosen):
        return _export_competitions(options, chosen, request)
    if given := _competition_options(options):
        raise UsageError(f"{', '.join(given)}: only for competitions; --to={options.to} exports run groups")
    if not options.group:
        raise UsageError(f"--to={options.to} needs a run group: mlebench export --to={options.to} GROUP")
    groups = cast(contract.GroupExporter, chosen)
    bench = common.read_bench(options)
    for name in options.group:
        group = bench.group(name)
        if not group.records:
            raise UsageError(f"{group.folder} has no finished run: there is nothing to export")
        _print(groups.export(group, request), str(request.output or group.name))
    return 0


def _export_competitions(options: argparse.Namespace, chosen: contract.CompetitionExporter, request: Request) -> int:
    if options.group:
        raise UsageError(f"--to={options.to} takes competitions, not run groups: choose them with -c or --split")
    if options.split is None and options.competition is None and options.list is None:
        raise UsageError(f"--to={options.to} needs competitions: choose them with -c or --split")
    bench = common.read_bench(options, Lines())
    selected = common.selected(options, bench.catalogue)
    _print(chosen.export_competitions(bench, selected, request), f"--to={options.to}: competitions")
    return 0


def _print(lines: Iterator[str], what: str) -> None:
    try:
        for line in lines:
            print(line, flush=True)
    except OSError as error:
        raise UsageError(f"{what} cannot be exported: {unusable(error)}") from error


def _competition_options(options: argparse.Namespace) -> list[str]:
    chosen = {"-c (--competition-id)": options.competition, "--split": options.split, "--list": options.list}
    others = {
        name: getattr(options, settings.OPTIONS[name].dest)
        for name in ("--competitions-dir", "--bench-version", *_FOR_COMPETITIONS)
    }
    return [name for name, value in {**chosen, **others}.items() if value not in (None, [])]


def _given(options: argparse.Namespace, chosen: Exporter) -> dict[str, str]:
    given = {dest: value for dest, value in vars(options).items() if dest.startswith("--") and value is not None}
    if others := sorted(given.keys() - {option.name for option in chosen.OPTIONS}):
        raise UsageError(f"{', '.join(others)} has no effect with --to={options.to}")
    return given
