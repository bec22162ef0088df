"""``mlebench report``: what run groups came to, and how that compares."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pytest_mlebench.cli.common import GROUP_HELP, add_options, read_settings
from pytest_mlebench.errors import UsageError
from pytest_mlebench.json_values import json_text
from pytest_mlebench.reports.json_report import to_json
from pytest_mlebench.reports.run_table import to_csv
from pytest_mlebench.reports.sections import sections
from pytest_mlebench.results.overview import Overview, overview
from pytest_mlebench.runs.group import find_group, read_group

logger = logging.getLogger("pytest_mlebench")


def add(commands: Any) -> None:
    report = commands.add_parser("report", help="summarise and compare run groups")
    report.add_argument("groups", nargs="+", metavar="GROUP", help=GROUP_HELP)
    report.add_argument("--format", choices=FORMATS, default="table",
        help="table, json (everything), csv (one line per run), md (Markdown) or html (default: table)")  # fmt: skip
    report.add_argument("--pad-missing", action="store_true",
        help="count missing runs as failures (default: leave their seeds out)")  # fmt: skip
    report.add_argument("--by", choices=["category"], help="also show results by category")
    report.add_argument("--plots", type=Path, metavar="DIR", help="also write plots to this folder, as SVG")
    add_options(report, "--runs-dir")
    report.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="write to this file instead of standard output"
    )
    report.set_defaults(command=_report)


def _report(options: argparse.Namespace) -> int:
    if options.pad_missing and options.format == "csv":
        raise UsageError("--pad-missing changes rates, and --format=csv has none: it lists runs, missing ones included")
    runs_dir = read_settings(options).runs_dir
    groups = [read_group(find_group(name, runs_dir)) for name in options.groups]
    for group in groups:
        for reason in group.broken:
            logger.warning("warning: %s", reason)
    view = overview(groups, pad_missing=options.pad_missing, by_category=options.by == "category")
    if options.plots is not None:
        _write_plots(view, options.plots)
    text = FORMATS[options.format](view).rstrip("\n") + "\n"
    if options.output is None:
        print(text, end="")
        return 0
    try:
        options.output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--output: {options.output} cannot be written: {error.strerror}") from error
    logger.info("%s", options.output)
    return 0


def _write_plots(view: Overview, folder: Path) -> None:
    from pytest_mlebench.reports.plots import write_plots

    for path in write_plots(view, folder):
        logger.info("%s", path)


def _table(view: Overview) -> str:
    return "\n\n".join(section.text() for section in sections(view))


def _markdown(view: Overview) -> str:
    names = ", ".join(group.name for group in view.groups)
    return "\n\n".join([f"# MLE-bench: {names}", *(section.markdown() for section in sections(view))])


def _html(view: Overview) -> str:
    from pytest_mlebench.reports.page import page  # Jinja2 and the plots, which other formats do without

    return page(view)


FORMATS: dict[str, Callable[[Overview], str]] = {
    "table": _table,
    "json": lambda view: json_text(to_json(view)),
    "csv": lambda view: to_csv(view.groups),
    "md": _markdown,
    "html": _html,
}
