"""The templates of pages and their style: those of the report, which the viewer's pages share."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import ChoiceLoader, Environment, FileSystemLoader
from markupsafe import Markup

from pytest_mlebench.reports.palette import stylesheet, variables
from pytest_mlebench.reports.plots.svg import STYLE
from pytest_mlebench.reports.untrusted import plain

ASSETS = Path(__file__).parent / "assets"
_TEXT = 2000


@cache
def environment(*folders: Path) -> Environment:
    """Templates of these folders and of the report; what they show is escaped, and without control sequences."""

    def finalize(value: Any) -> Any:
        return plain(value, _TEXT) if isinstance(value, str) and not isinstance(value, Markup) else value

    loader = ChoiceLoader([FileSystemLoader(folder) for folder in (*folders, ASSETS)])
    return Environment(loader=loader, autoescape=True, finalize=finalize, trim_blocks=True, lstrip_blocks=True)


def asset(name: str, folder: Path = ASSETS) -> str:
    return (folder / name).read_text(encoding="utf-8")


def style(*more: str) -> str:
    """The style of tables and plots with their colours, and that of further files."""
    return f":root{{{variables()}}}{stylesheet()}" + STYLE + "".join(map(asset, ("summary.css", "plots.css", *more)))
