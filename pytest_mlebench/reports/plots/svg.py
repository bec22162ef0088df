"""Hand-written SVG: text, shapes, and plots made of panels that a page can arrange freely.

A wide panel stretches only its axis, whose positions are in per cent (``at``), so text keeps its size. Curves are drawn
in a nested element that is stretched as a whole (``stretched``).
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from pytest_mlebench.io.units import plain
from pytest_mlebench.records.outcome import Outcome
from pytest_mlebench.reports.palette import AGENTS, stylesheet

GAP = 28
"""Distance between the panels of a plot file, in pixels."""
SCHEME = ":root{color-scheme:light dark}@media print{:root{color-scheme:light}}"
"""CSS for the reader's light or dark colour scheme; printing is always light."""
STYLE = (
    "text{font:11.5px system-ui,'Segoe UI',Helvetica,Arial,sans-serif}svg svg{overflow:visible}"
    ".b{font-weight:650}.h{font-size:13px;font-weight:650}.c{font-size:11px;font-weight:700}.s{font-size:11px}"
    ".m{text-anchor:middle}.e{text-anchor:end}.hollow{fill:none}.faint{fill-opacity:.5}.dash{stroke-dasharray:2 2}"
    "path{vector-effect:non-scaling-stroke}"
)
CELL = 18
"""Size of an outcome's cell, and distance between rows of cells, in pixels."""
_CHARACTER = 6.8
"""Average width of a character, in pixels."""


@dataclass(frozen=True, kw_only=True)
class Panel:
    """An independent part of a plot. Sizes are in pixels; ``name`` is unique on a page.

    ``width`` is the width in a file, and the minimum on a page. A panel with left and right ``margins`` takes the
    available width: x is 0 at the left margin and 100 % at the right one.
    """

    name: str
    title: str
    description: str
    width: float
    height: float
    body: str
    margins: tuple[float, float] | None = None
    is_key: bool = False
    """Whether this is a legend of the other panels."""
    file_only: bool = False
    """Whether pages leave this out, because they have one legend of agents for all plots."""

    def svg(self) -> str:
        """Return an element for a page; the page provides the stylesheet."""
        if self.margins is None:
            return _root(self.name, self.title, self.description, n(self.width), n(self.height), self.body)
        left, right = map(n, self.margins)
        element = _root(self.name, self.title, self.description, "100%", n(self.height), self.body)
        return f'<div style="padding:0 {right}px 0 {left}px">{element}</div>'

    def placed(self, x: float, y: float) -> str:
        """Return the panel as a nested element at a position in a file."""
        left, right = self.margins or (0.0, 0.0)
        size = f'width="{n(self.width - left - right)}" height="{n(self.height)}"'
        return f'<svg x="{n(x + left)}" y="{n(y)}" {size}>{self.body}</svg>'


@dataclass(frozen=True, kw_only=True)
class Plot:
    """Panels with a common title. ``columns`` is the maximum number of columns in a file.

    ``caption`` is one line; ``more`` is a longer explanation.
    """

    name: str
    title: str
    caption: str
    panels: Sequence[Panel]
    columns: int = 3
    more: str = ""

    @property
    def on_page(self) -> Sequence[Panel]:
        return [panel for panel in self.panels if not panel.file_only]

    @property
    def wide(self) -> bool:
        """Whether a page should give this plot a full row."""
        return sum(not panel.is_key for panel in self.panels) > 1

    def file(self) -> str:
        """Return a standalone SVG file: the title, then the panels in columns of similar height."""
        columns = _columns(self.panels, self.columns)
        characters = max(60, int(sum(_width(column) for column in columns) / 5.6))
        words = f"{self.caption} {self.more}"
        lines = textwrap.wrap(words, characters, break_long_words=False, break_on_hyphens=False)
        top = 40 + 15 * len(lines)
        body = [text(GAP, 30, self.title, "h f-ink")]
        body += [text(GAP, 48 + 15 * k, line, "f-muted") for k, line in enumerate(lines)]
        x, bottom = float(GAP), 0.0
        for column in columns:
            y = float(top + GAP / 2)
            for panel in column:
                body.append(panel.placed(x, y))
                y += panel.height + GAP
            x += _width(column) + GAP
            bottom = max(bottom, y)
        background = '<rect class="f-paper" width="100%" height="100%"/>'
        style = f"<style>{SCHEME}{STYLE}{stylesheet()}</style>"
        description = " ".join(
            [self.caption, self.more, *(f"{panel.title}: {panel.description}" for panel in self.panels)]
        )
        root = _root(self.name, self.title, description, n(x), n(bottom), style + background + "".join(body))
        return root.replace("<svg ", f'<svg viewBox="0 0 {n(x)} {n(bottom)}" ', 1) + "\n"


def _columns(panels: Sequence[Panel], count: int) -> list[list[Panel]]:
    heights = [panel.height for panel in panels]
    full = max([*heights, (sum(heights) + GAP * len(heights)) / count - GAP])
    columns: list[list[Panel]] = [[]]
    for panel in panels:
        height = sum(above.height + GAP for above in columns[-1]) + panel.height
        if columns[-1] and len(columns) < count and height > full + GAP / 2:
            columns.append([])
        columns[-1].append(panel)
    return columns


def _width(column: Sequence[Panel]) -> float:
    return max((panel.width for panel in column), default=0)


def _root(name: str, title: str, description: str, width: str, height: str, body: str) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" role="img"'
        f' aria-labelledby="{name}-title {name}-desc">'
        f'<title id="{name}-title">{safe(title)}</title><desc id="{name}-desc">{safe(description)}</desc>{body}</svg>'
    )


Place = float | str
"""A position in pixels, or in per cent of the axis (see ``at``)."""


def n(value: Place) -> str:
    """Format a number with at most one decimal."""
    return value if isinstance(value, str) else f"{value:.1f}".removesuffix(".0")


def at(share: float) -> str:
    """Convert a fraction of the axis, from 0 to 1, to a position in per cent."""
    return f"{100 * share:.1f}".removesuffix(".0") + "%"


def stretched(width: float, height: float, body: str) -> str:
    """Stretch a drawing of this width to the whole axis; it cannot contain text."""
    return (
        f'<svg width="100%" height="{n(height)}" viewBox="0 0 {n(width)} {n(height)}" preserveAspectRatio="none">'
        f"{body}</svg>"
    )


def safe(content: str) -> str:
    """Escape text for an element or an attribute."""
    return escape(plain(content))


def text(x: Place, y: float, content: str, classes: str = "f-ink", *, dx: float = 0) -> str:
    shift = f' dx="{n(dx)}"' if dx else ""
    return f'<text{shift} x="{n(x)}" y="{n(y)}" class="{classes}">{safe(content)}</text>'


def rect(x: Place, y: float, width: Place, height: float, classes: str, *, radius: float = 0) -> str:
    rounded = f' rx="{n(radius)}"' if radius else ""
    return f'<rect x="{n(x)}" y="{n(y)}" width="{n(width)}" height="{n(height)}"{rounded} class="{classes}"/>'


def line(x1: Place, y1: float, x2: Place, y2: float, classes: str = "s-line", *, width: float = 1) -> str:
    bold = f' stroke-width="{n(width)}"' if width != 1 else ""
    return f'<line x1="{n(x1)}" y1="{n(y1)}" x2="{n(x2)}" y2="{n(y2)}" class="{classes}"{bold}/>'


def grid(height: float, bottom: float, ticks: int, distance: float, unit: str) -> list[str]:
    """Draw the grid and labels of a plot of percentages, with this many ticks along the axis."""
    found = []
    for share in (0, 25, 50, 75, 100):
        y = bottom - height * share / 100
        found.append(line(0, y, "100%", y, "s-line" if share else "s-muted"))
        found.append(text(-6, y + 4, f"{share} %" if share == 100 else str(share), "s e f-muted"))
    for k in range(ticks + 1):
        x = at(k / ticks)
        found.append(line(x, bottom, x, bottom + 3, "s-muted"))
        found.append(text(x, bottom + 16, f"{k * distance:g}" + (f" {unit}" if k == 0 else ""), "s m f-muted"))
    return found


def shortened(content: str, characters: int) -> str:
    """Shorten a name in the middle, because related names often differ at the end."""
    if len(content) <= characters:
        return content
    end = (characters - 1) // 2
    return f"{content[: characters - 1 - end]}…{content[-end:] if end else ''}"


def fitting(content: str, pixels: float) -> str:
    """Shorten a name to this width."""
    return shortened(content, max(2, int(pixels / _CHARACTER)))


def named(content: str, shown: str, *, run: int | None = None) -> str:
    """Wrap elements with a tooltip, and with a link to this row in the table of runs."""
    link = "" if run is None else f' data-run="{run}"'
    return f"<g{link}><title>{safe(content)}</title>{shown}</g>"


_SHAPES = (
    ((-1, -1), (1, -1), (1, 1), (-1, 1)),
    ((0, -1.2), (1.2, 1), (-1.2, 1)),
    ((0, -1.4), (1.4, 0), (0, 1.4), (-1.4, 0)),
    ((0, 1.2), (1.2, -1), (-1.2, -1)),
    ((-1, -1), (0, -0.5), (1, -1), (0.5, 0), (1, 1), (0, 0.5), (-1, 1), (-0.5, 0)),
)
"""The corners of the marks that are not circles, in units of their radius."""


def marker(number: int, x: Place, y: float, radius: float = 4) -> str:
    """Draw the mark of the agent with this number: one of 36 combinations of colour and shape."""
    classes = f"f-agent{number % AGENTS} s-paper"
    kind = (number + number // AGENTS) % AGENTS
    if not kind:
        return f'<circle cx="{n(x)}" cy="{n(y)}" r="{n(radius)}" class="{classes}"/>'
    if isinstance(x, str):  # a path cannot have positions in per cent
        return f'<svg x="{x}" y="{n(y)}">{marker(number, 0, 0, radius)}</svg>'
    corners = "L".join(f"{n(x + dx * radius)} {n(y + dy * radius)}" for dx, dy in _SHAPES[kind - 1])
    return f'<path d="M{corners}z" class="{classes}"/>'


def outcome_cell(x: float, y: float, outcome: Outcome, width: float = CELL) -> str:
    """Draw the cell of an outcome, ``CELL`` pixels high."""
    if outcome.passed:
        box, ink = rect(x, y, width - 1, CELL - 1, f"f-{outcome.colour}", radius=2), f"f-on-{outcome.colour}"
    else:
        dashes = " dash" if outcome is Outcome.error else ""
        box, ink = rect(x + 0.5, y + 0.5, width - 2, CELL - 2, f"hollow s-failure{dashes}", radius=2), "f-failure"
    return box + f'<text x="{n(x + (width - 1) / 2)}" y="{n(y + 12.5)}" class="c m {ink}">{outcome.letter}</text>'


def agents_key(name: str, agents: Sequence[str]) -> list[Panel]:
    """Return the legend of agents for a plot file; empty for a single agent."""
    if len(agents) < 2:
        return []
    body = [marker(k, 8, 17 * k + 8) + text(23, 17 * k + 12, shortened(agent, 50)) for k, agent in enumerate(agents)]
    return [
        Panel(
            name=f"{name}-agents",
            title="What the marks mean",
            description=f"Marks: {', '.join(agents)}.",
            width=340,
            height=17 * len(agents),
            body="".join(body),
            is_key=True,
            file_only=True,
        )
    ]


def legend(agents: Sequence[str]) -> list[tuple[str, str]]:
    """Return (mark, agent) pairs, each mark as an element; empty for a single agent."""
    marks = [f'<svg width="14" height="14" aria-hidden="true">{marker(k, 7, 7, 5)}</svg>' for k in range(len(agents))]
    return list(zip(marks, agents, strict=True)) if len(agents) > 1 else []
