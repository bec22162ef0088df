"""SVG by hand: text, shapes, and plots made of panels that a page may lay out as it likes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from pytest_mlebench.reports.palette import AGENTS, stylesheet
from pytest_mlebench.reports.untrusted import plain

GAP = 28
"""Pixels between the panels of a plot's file."""
SCHEME = ":root{color-scheme:light dark}@media print{:root{color-scheme:light}}"
"""Makes the colours follow the reader's choice of a light or a dark screen; paper is light."""
STYLE = (
    "text{font:11px system-ui,'Segoe UI',Helvetica,Arial,sans-serif}"
    ".b{font-weight:650}.h{font-size:13px;font-weight:650}.c{font-size:10px;font-weight:700}.s{font-size:10px}"
    ".m{text-anchor:middle}.e{text-anchor:end}.hollow{fill:none}.faint{fill-opacity:.5}.dash{stroke-dasharray:2 2}"
)


@dataclass(frozen=True, kw_only=True)
class Panel:
    """A part of a plot that stands alone. Sizes in pixels; ``name`` is unique on a page."""

    name: str
    title: str
    description: str
    width: float
    height: float
    body: str

    def svg(self) -> str:
        """An element for a page, which has the stylesheet."""
        return _root(self.name, self.title, self.description, self.width, self.height, self.body)


@dataclass(frozen=True, kw_only=True)
class Plot:
    """Panels with a common title; ``columns`` is how many of them stand side by side where there is room."""

    name: str
    title: str
    caption: str
    panels: Sequence[Panel]
    columns: int = 3

    def file(self) -> str:
        """A file of its own: the panels in columns, each as full as the highest panel, under the title."""
        columns = _columns(self.panels, self.columns)
        lines = _wrapped(self.caption, max(60, int(sum(_width(column) for column in columns) / 5.6)))
        top = 40 + 15 * len(lines)
        body = [text(GAP, 30, self.title, "h f-ink")]
        body += [text(GAP, 48 + 15 * k, line, "f-muted") for k, line in enumerate(lines)]
        x, bottom = float(GAP), 0.0
        for column in columns:
            y = float(top + GAP / 2)
            for panel in column:
                body.append(f'<g transform="translate({n(x)} {n(y)})">{panel.body}</g>')
                y += panel.height + GAP
            x += _width(column) + GAP
            bottom = max(bottom, y)
        ground = '<rect class="f-paper" width="100%" height="100%"/>'
        style = f"<style>{SCHEME}{STYLE}{stylesheet()}</style>"
        description = " ".join([self.caption, *(f"{panel.title}: {panel.description}" for panel in self.panels)])
        return _root(self.name, self.title, description, x, bottom, style + ground + "".join(body)) + "\n"


def _columns(panels: Sequence[Panel], count: int) -> list[list[Panel]]:
    full = max(
        max((panel.height for panel in panels), default=0), sum(panel.height + GAP for panel in panels) / count - GAP
    )
    columns: list[list[Panel]] = [[]]
    for panel in panels:
        if (
            columns[-1]
            and len(columns) < count
            and sum(p.height + GAP for p in columns[-1]) + panel.height > full + GAP / 2
        ):
            columns.append([])
        columns[-1].append(panel)
    return columns


def _width(column: Sequence[Panel]) -> float:
    return max((panel.width for panel in column), default=0)


def _wrapped(words: str, characters: int) -> list[str]:
    lines = [""]
    for word in words.split():
        if lines[-1] and len(lines[-1]) + len(word) >= characters:
            lines.append("")
        lines[-1] += f"{' ' if lines[-1] else ''}{word}"
    return lines


def _root(name: str, title: str, description: str, width: float, height: float, body: str) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {n(width)} {n(height)}" width="{n(width)}"'
        f' height="{n(height)}" role="img" aria-labelledby="{name}-title {name}-desc">'
        f'<title id="{name}-title">{safe(title)}</title><desc id="{name}-desc">{safe(description)}</desc>{body}</svg>'
    )


def n(value: float) -> str:
    """A number without needless digits."""
    return f"{value:.1f}".removesuffix(".0")


def safe(content: str) -> str:
    """Text for an element or an attribute."""
    return escape(plain(content))


def text(x: float, y: float, content: str, classes: str = "f-ink") -> str:
    return f'<text x="{n(x)}" y="{n(y)}" class="{classes}">{safe(content)}</text>'


def rect(x: float, y: float, width: float, height: float, classes: str, *, radius: float = 0) -> str:
    rounded = f' rx="{n(radius)}"' if radius else ""
    return f'<rect x="{n(x)}" y="{n(y)}" width="{n(width)}" height="{n(height)}"{rounded} class="{classes}"/>'


def line(x1: float, y1: float, x2: float, y2: float, classes: str = "s-line", *, width: float = 1) -> str:
    return f'<path d="M{n(x1)} {n(y1)}L{n(x2)} {n(y2)}" class="{classes}" stroke-width="{n(width)}"/>'


def shortened(content: str, characters: int) -> str:
    return content if len(content) <= characters else content[: characters - 1].rstrip("-_. ") + "…"


def marker(number: int, x: float, y: float, radius: float = 4) -> str:
    """The sign of the agent with this number: its colour, and a shape of its own, with an edge of the ground."""
    r = radius
    outlines = (
        f"M{n(x - r)} {n(y)}a{n(r)} {n(r)} 0 1 0 {n(2 * r)} 0a{n(r)} {n(r)} 0 1 0 {n(-2 * r)} 0z",
        _polygon(x, y, (-r, -r), (r, -r), (r, r), (-r, r)),
        _polygon(x, y, (0, -1.2 * r), (1.2 * r, r), (-1.2 * r, r)),
        _polygon(x, y, (0, -1.4 * r), (1.4 * r, 0), (0, 1.4 * r), (-1.4 * r, 0)),
        _polygon(x, y, (0, 1.2 * r), (1.2 * r, -r), (-1.2 * r, -r)),
        _polygon(x, y, (-r, -r), (0, -r / 2), (r, -r), (r / 2, 0), (r, r), (0, r / 2), (-r, r), (-r / 2, 0)),
    )
    kind = number % AGENTS
    return f'<path d="{outlines[kind]}" class="f-agent{kind} s-paper" stroke-width="1"/>'


def _polygon(x: float, y: float, *points: tuple[float, float]) -> str:
    return "M" + "L".join(f"{n(x + dx)} {n(y + dy)}" for dx, dy in points) + "z"
