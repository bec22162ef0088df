"""The templates of pages and their style: those of the report, which the viewer's pages share."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import ChoiceLoader, Environment, FileSystemLoader
from markupsafe import Markup, escape

from pytest_mlebench.reports.palette import stylesheet, variables
from pytest_mlebench.reports.plots.svg import STYLE
from pytest_mlebench.reports.untrusted import plain

ASSETS = Path(__file__).parent / "assets"
_TEXT = 2000
_WHOLE = re.compile(r"\d+(?:–\d+)?(?: %| [A-Z][a-z]+(?: \d{4})?)|\d+–\d+")


@cache
def environment(*folders: Path) -> Environment:
    """Templates of these folders and of the report; what they show is escaped, and without control sequences."""

    def finalize(value: Any) -> Any:
        return plain(value, _TEXT) if isinstance(value, str) and not isinstance(value, Markup) else value

    loader = ChoiceLoader([FileSystemLoader(folder) for folder in (*folders, ASSETS)])
    made = Environment(loader=loader, autoescape=True, finalize=finalize, trim_blocks=True, lstrip_blocks=True)
    made.filters["unbroken"] = unbroken
    made.filters["with_code"] = with_code
    return made


def unbroken(text: str) -> Markup:
    """A text as HTML whose dates, ranges and percentages stay on one line.

    >>> unbroken("<b>, 1–9 March 2026")
    Markup('&lt;b&gt;, <span class="whole">1–9 March 2026</span>')
    """
    return Markup(_WHOLE.sub(r'<span class="whole">\g<0></span>', str(escape(plain(text, _TEXT)))))


def with_code(text: str) -> Markup:
    """A text as HTML in which what stands between backticks is code.

    >>> with_code("see `mlebench audit` & <b>")
    Markup('see <code>mlebench audit</code> &amp; &lt;b&gt;')
    """
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(plain(text, _TEXT)))))


def asset(name: str, folder: Path = ASSETS) -> str:
    return (folder / name).read_text(encoding="utf-8")


def style(*more: str) -> str:
    """The style of tables and plots with their colours, and that of further files."""
    return f":root{{{variables()}}}{stylesheet()}" + STYLE + "".join(map(asset, ("summary.css", "plots.css", *more)))
