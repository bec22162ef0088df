"""SVG by hand: text, shapes, and plots made of panels that a page may lay out as it likes.

Text has one size, whatever the width: a wide panel stretches its axis, whose positions are in per cent (``at``), and
leaves all else as it is. Curves are drawn in a nested element that is stretched as a whole (``stretched``).
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from pytest_mlebench.io.units import plain
from pytest_mlebench.records.outcome import Outcome
from pytest_mlebench.records.record import RunRecord
from pytest_mlebench.reports.palette import AGENTS, stylesheet

GAP = 28
"""Pixels between the panels of a plot's file."""
SCHEME = ":root{color-scheme:light dark}@media print{:root{color-scheme:light}}"
"""Makes the colours follow the reader's choice of a light or a dark screen; paper is light."""
STYLE = (
    "text{font:11.5px system-ui,'Segoe UI',Helvetica,Arial,sans-serif}svg svg{overflow:visible}"
    ".b{font-weight:650}.h{font-size:13px;font-weight:650}.c{font-size:11px;font-weight:700}.s{font-size:11px}"
    ".m{text-anchor:middle}.e{text-anchor:end}.hollow{fill:none}.faint{fill-opacity:.5}.dash{stroke-dasharray:2 2}"
    "path{vector-effect:non-scaling-stroke}"
)
CELL = 18
"""Pixels of an outcome's sign, and between two rows of them."""
_CHARACTER = 6.8
"""Pixels that a character takes, on average."""


@dataclass(frozen=True, kw_only=True)
class Panel:
    """A part of a plot that stands alone. Sizes in pixels; ``name`` is unique on a page.

    ``width`` is that of a file, and the least on a page. With ``margins`` at the left and right the panel is as wide
    as the page lets it be: x is 0 after the left margin, and 100 % before the right one.
    """

    name: str
    title: str
    description: str
    width: float
    height: float
    body: str
    margins: tuple[float, float] | None = None
    is_key: bool = False
    """Whether it only says what the signs of the others mean."""
    file_only: bool = False
    """Whether a page leaves it out, since it has one legend of agents for all plots."""

    def svg(self) -> str:
        """An element for a page, which has the stylesheet."""
        if self.margins is None:
            return _root(self.name, self.title, self.description, n(self.width), n(self.height), self.body)
        left, right = map(n, self.margins)
        element = _root(self.name, self.title, self.description, "100%", n(self.height), self.body)
        return f'<div style="padding:0 {right}px 0 {left}px">{element}</div>'

    def placed(self, x: float, y: float) -> str:
        """The panel within a file."""
        left, right = self.margins or (0.0, 0.0)
        size = f'width="{n(self.width - left - right)}" height="{n(self.height)}"'
        return f'<svg x="{n(x + left)}" y="{n(y)}" {size}>{self.body}</svg>'


@dataclass(frozen=True, kw_only=True)
class Plot:
    """Panels with a common title; ``columns`` is how many of them stand side by side where there is room.

    ``caption`` is one line, ``more`` is the explanation behind it.
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
        """Whether a page should give it a row of its own."""
        return sum(not panel.is_key for panel in self.panels) > 1

    def file(self) -> str:
        """A file of its own: the panels in columns, each as full as the highest panel, under the title."""
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
        ground = '<rect class="f-paper" width="100%" height="100%"/>'
        style = f"<style>{SCHEME}{STYLE}{stylesheet()}</style>"
        description = " ".join(
            [self.caption, self.more, *(f"{panel.title}: {panel.description}" for panel in self.panels)]
        )
        root = _root(self.name, self.title, description, n(x), n(bottom), style + ground + "".join(body))
        return root.replace("<svg ", f'<svg viewBox="0 0 {n(x)} {n(bottom)}" ', 1) + "\n"


def _columns(panels: Sequence[Panel], count: int) -> list[list[Panel]]:
    heights = [panel.height for panel in panels]
    full = max([*heights, (sum(heights) + GAP * len(heights)) / count - GAP])
    columns: list[list[Panel]] = [[]]
    for panel in panels:
        height = sum(own.height + GAP for own in columns[-1]) + panel.height
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
    """A number without needless digits."""
    return value if isinstance(value, str) else f"{value:.1f}".removesuffix(".0")


def at(share: float) -> str:
    """The place of this share of the axis, from 0 to 1."""
    return f"{100 * share:.1f}".removesuffix(".0") + "%"


def stretched(width: float, height: float, body: str) -> str:
    """What is drawn for this width, stretched to the whole axis; it must not hold text."""
    return (
        f'<svg width="100%" height="{n(height)}" viewBox="0 0 {n(width)} {n(height)}" preserveAspectRatio="none">'
        f"{body}</svg>"
    )


def safe(content: str) -> str:
    """Text for an element or an attribute."""
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
    """Lines and numbers of a plot of shares, with this many ticks along the axis."""
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
    """A name without its middle, since names of a kind often differ at their ends."""
    if len(content) <= characters:
        return content
    end = (characters - 1) // 2
    return f"{content[: characters - 1 - end]}…{content[-end:] if end else ''}"


def fitting(content: str, pixels: float) -> str:
    """A name that is no wider than this."""
    return shortened(content, max(2, int(pixels / _CHARACTER)))


def named(content: str, shown: str) -> str:
    """Elements with a name that may be shown in part: the whole of it appears under the pointer."""
    return f"<g><title>{safe(content)}</title>{shown}</g>"


def marker(number: int, x: Place, y: float, radius: float = 4) -> str:
    """The sign of the agent with this number: a colour and a shape, of which 36 pairs differ, with an edge."""
    classes = f"f-agent{number % AGENTS} s-paper"
    kind = (number + number // AGENTS) % AGENTS
    if not kind:
        return f'<circle cx="{n(x)}" cy="{n(y)}" r="{n(radius)}" class="{classes}"/>'
    if isinstance(x, str):
        return f'<svg x="{x}" y="{n(y)}">{_shape(kind, 0, 0, radius, classes)}</svg>'
    return _shape(kind, x, y, radius, classes)


def outcome_cell(x: float, y: float, outcome: Outcome, width: float = CELL) -> str:
    """The sign of an outcome, in a field of 18 pixels' height."""
    if outcome.passed:
        box, ink = rect(x, y, width - 1, CELL - 1, f"f-{outcome.colour}", radius=2), f"f-on-{outcome.colour}"
    else:
        dashes = " dash" if outcome is Outcome.error else ""
        box, ink = rect(x + 0.5, y + 0.5, width - 2, CELL - 2, f"hollow s-failure{dashes}", radius=2), "f-failure"
    return box + f'<text x="{n(x + (width - 1) / 2)}" y="{n(y + 12.5)}" class="c m {ink}">{outcome.letter}</text>'


def agents_of(records: Iterable[RunRecord]) -> list[str]:
    return sorted({record.agent for record in records})


def agents_key(name: str, agents: Sequence[str]) -> list[Panel]:
    """The legend of agents in a plot's file; none for a single agent."""
    if len(agents) < 2:
        return []
    body = [marker(k, 8, 17 * k + 8) + text(23, 17 * k + 12, shortened(own, 50)) for k, own in enumerate(agents)]
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
    """The sign of each agent as an element, with its name; none for a single agent."""
    signs = [f'<svg width="14" height="14" aria-hidden="true">{marker(k, 7, 7, 5)}</svg>' for k in range(len(agents))]
    return list(zip(signs, agents, strict=True)) if len(agents) > 1 else []


def _shape(kind: int, x: float, y: float, r: float, classes: str) -> str:
    outlines = (
        _polygon(x, y, (-r, -r), (r, -r), (r, r), (-r, r)),
        _polygon(x, y, (0, -1.2 * r), (1.2 * r, r), (-1.2 * r, r)),
        _polygon(x, y, (0, -1.4 * r), (1.4 * r, 0), (0, 1.4 * r), (-1.4 * r, 0)),
        _polygon(x, y, (0, 1.2 * r), (1.2 * r, -r), (-1.2 * r, -r)),
        _polygon(x, y, (-r, -r), (0, -r / 2), (r, -r), (r / 2, 0), (r, r), (0, r / 2), (-r, r), (-r / 2, 0)),
    )
    return f'<path d="{outlines[kind - 1]}" class="{classes}"/>'


def _polygon(x: float, y: float, *points: tuple[float, float]) -> str:
    return "M" + "L".join(f"{n(x + dx)} {n(y + dy)}" for dx, dy in points) + "z"
