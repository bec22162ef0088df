"""``mlebench report``: summarises and compares run groups."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from typing import Any

from pytest_mlebench.cli import common
from pytest_mlebench.cli.common import logger
from pytest_mlebench.errors import UsageError
from pytest_mlebench.records.group import RunGroup
from pytest_mlebench.reports.formats import summary_rows, to_csv, to_json, to_latex, to_summary_csv
from pytest_mlebench.reports.page import page
from pytest_mlebench.reports.plots import write_plots
from pytest_mlebench.reports.sections import Heading, heading, sections
from pytest_mlebench.reports.tables import Section, has_colours, markdown_text, run_sections, terminal_width
from pytest_mlebench.results.overview import Overview


def add(commands: Any) -> None:
    report = commands.add_parser("report", help="summarise and compare run groups")
    report.add_argument("groups", nargs="+", metavar="GROUP", help=common.GROUP_OR_BUNDLE_HELP)
    report.add_argument("--format", choices=["table", *FORMATS, "html"],
        help="table, json (everything), csv (one line per run), md (Markdown), latex (tables for a paper), summary-csv "
        "or summary-json (one row per agent and split), or html (default: by the ending of --output, else "
        "table)")  # fmt: skip
    report.add_argument("--pad-missing", action="store_true",
        help="count missing runs as failures (default: leave their seeds out)")  # fmt: skip
    report.add_argument("--runs", action="store_true",
        help="also show every run, and agents competition by competition (table and md)")  # fmt: skip
    report.add_argument("--by", choices=["category"], help="also show results by category")
    report.add_argument("--bench-version", choices=["1", "2"], metavar="N",
        help="only groups of this version of the benchmark: 1 or 2 (default: all)")  # fmt: skip
    report.add_argument("--plots", type=common.user_path, metavar="DIR", help="also write plots to this folder, as SVG")
    common.add_options(report, "--runs-dir", "--title", "--note")
    report.add_argument(
        "-o", "--output", type=common.user_path, metavar="FILE", help="write to this file instead of standard output"
    )
    report.set_defaults(command=_report)


def _report(options: argparse.Namespace) -> int:
    ending = "" if options.output is None else options.output.suffix
    options.format = options.format or _FORMAT_BY_SUFFIX.get(ending, "table")
    if options.pad_missing and options.format == "csv":
        raise UsageError("--pad-missing changes rates, and --format=csv has none: it lists runs, missing ones included")
    if options.runs and options.format not in ("table", "md"):
        raise UsageError(f"--runs adds to the table and to Markdown; --format={options.format} has all runs")
    bench = common.read_bench(options)
    groups = _select_version(list(map(bench.group, options.groups)), options.bench_version)
    view = bench.report(*groups, pad_missing=options.pad_missing, by_category=options.by == "category")
    top = heading(view, title=bench.settings.title, note=bench.settings.note)
    if options.plots is not None:
        for path in write_plots(view, options.plots):
            logger.info("%s", path)
    runs = list(run_sections(groups)) if options.runs else []
    if options.format == "table":
        text = _table(view, top, runs, to_terminal=options.output is None)
    elif options.format == "html":
        from_bundle = any(map(bench.is_unpacked, groups))  # no links to its files, which are deleted
        text = page(view, top, folder=None if options.output is None or from_bundle else options.output.parent)
    else:
        text = "\n\n".join([FORMATS[options.format](view, top).rstrip("\n"), *(run.markdown() for run in runs)]) + "\n"
    common.write_output(text, options.output)
    return 0


def _select_version(groups: list[RunGroup], version: str | None) -> list[RunGroup]:
    kept = [group for group in groups if version is None or group.version == f"v{version}"]
    if skipped := ", ".join(group.name for group in groups if group not in kept):
        if not kept:
            raise UsageError(f"--bench-version={version}: none of these groups is of that version: {skipped}")
        logger.warning("skipped groups of another version of the benchmark: %s", skipped)
    return kept


def _table(view: Overview, top: Heading, runs: Iterable[Section], *, to_terminal: bool) -> str:
    width, colours = terminal_width() if to_terminal else None, to_terminal and has_colours()
    shown = (Section(top.title, remarks=top.sentences), *sections(view), *runs)
    return "\n\n".join(section.text(width, colours=colours) for section in shown).rstrip("\n") + "\n"


def _markdown(view: Overview, top: Heading) -> str:
    text = [f"# {markdown_text(top.title)}", *map(markdown_text, top.sentences)]
    return "\n\n".join([*text, *(section.markdown() for section in sections(view, details=True))])


_FORMAT_BY_SUFFIX = {".json": "json", ".csv": "csv", ".md": "md", ".tex": "latex", ".html": "html"}

FORMATS: dict[str, Callable[[Overview, Heading], str]] = {
    "json": lambda view, _: common.inert_json(to_json(view)),
    "csv": lambda view, _: to_csv(view.groups),
    "md": _markdown,
    "latex": lambda view, _: to_latex(view),
    "summary-csv": lambda view, _: to_summary_csv(view),
    "summary-json": lambda view, _: common.inert_json(list(summary_rows(view))),
}
