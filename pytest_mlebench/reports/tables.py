"""Plain tables, for a terminal and for Markdown."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pytest_mlebench.reports.untrusted import one_line

WIDTH = 120
_GAP = "  "
_LABEL_WIDTH = 26
_SHORT, _SHORTEST = 16, 8
"""Characters that a shortened cell keeps: before names are shortened as well, and after."""


def terminal_width(*, is_terminal: bool | None = None) -> int | None:
    """The columns of the terminal (``$COLUMNS`` goes before); None where the output, as standard output, is none."""
    if not (sys.stdout.isatty() if is_terminal is None else is_terminal):
        return None
    return shutil.get_terminal_size().columns


def has_colours() -> bool:
    """Whether standard output shows colours: a terminal without $NO_COLOR, or anything with $FORCE_COLOR."""
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or (sys.stdout.isatty() and os.environ.get("TERM") != "dumb")


@dataclass(frozen=True)
class Table:
    """Cells in rows below heads; the columns in ``numbers`` are aligned to the right.

    Cells may hold untrusted text (see ``reports.untrusted``). ``spare`` are the columns that a narrow terminal can do
    without, the first one first. ``codes`` colour the rows where there are colours (see ``palette.ansi_code``).
    """

    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    numbers: frozenset[str] = frozenset()
    spare: Sequence[str] = ()
    codes: Sequence[str] = ()

    def fitted(self, width: int | None) -> Table:
        """The table as it fits into a width: without some of the spare columns; if need be with shortened cells."""
        table = self
        for head in self.spare:
            if width is None or table._width <= width:
                return table
            table = table._without(head)
        return table if width is None else table._shortened(width)

    def lines(self) -> list[str]:
        """The heads and each row as a line, with two spaces between columns."""
        return [
            _GAP.join(
                cell.rjust(width) if head in self.numbers else cell.ljust(width)
                for head, cell, width in zip(self.heads, row, self._widths, strict=True)
            ).rstrip()
            for row in self._cells
        ]

    def text(self, width: int | None = None, *, colours: bool = False) -> str:
        """The table for a terminal of this width, with a line that says which columns it has no room for."""
        table = self.fitted(width)
        heads, *rows = table.lines()
        if colours:
            heads = f"\x1b[1m{heads}\x1b[0m"
            rows = (
                [f"\x1b[{code}m{row}\x1b[0m" for code, row in zip(self.codes, rows, strict=True)]
                if self.codes
                else rows
            )
        left_out = [part for line in self.missing(table) for part in _wrapped(line, width or WIDTH)]
        return "\n".join([heads, *rows, *left_out])

    def missing(self, fitted: Table) -> list[str]:
        """A line that says which columns a fitted table lacks; none if it has all."""
        names = dict.fromkeys(head for head in self.heads if head not in fitted.heads)
        if not names:
            return []
        return [f"no room for the column{'s' if len(names) > 1 else ''} {', '.join(names)}"]

    @property
    def _cells(self) -> list[list[str]]:
        return [[one_line(cell) for cell in row] for row in (self.heads, *self.rows)]

    @property
    def _widths(self) -> list[int]:
        return [max(map(len, column)) for column in zip(*self._cells, strict=True)]

    @property
    def _width(self) -> int:
        return sum(self._widths) + len(_GAP) * (len(self.heads) - 1)

    def _without(self, head: str) -> Table:
        kept = [k for k, own in enumerate(self.heads) if own != head]
        return replace(self, heads=[self.heads[k] for k in kept], rows=[[row[k] for k in kept] for row in self.rows])

    def _shortened(self, width: int) -> Table:
        """Cut the longest columns of text until the table fits, or all of them are short; the names in front last."""
        widths = self._widths
        texts = [k for k, head in enumerate(self.heads) if head not in self.numbers]
        for columns, shortest in ((texts[1:], _SHORT), (texts, _SHORTEST)):
            while columns and sum(widths) + len(_GAP) * (len(widths) - 1) > width:
                longest = max(columns, key=lambda k: widths[k])
                if widths[longest] <= shortest:
                    break
                widths[longest] -= 1
        heads, *rows = [
            [_cut(cell, widths[k]) if k in texts else cell for k, cell in enumerate(row)] for row in self._cells
        ]
        return replace(self, heads=heads, rows=rows)

    def markdown(self) -> str:
        """The table in GitHub's Markdown."""
        rule = ["---:" if head in self.numbers else "---" for head in self.heads]
        escaped = ([markdown_text(cell) for cell in line] for line in (self.heads, *self.rows))
        head, *rows = (f"| {' | '.join(line)} |" for line in escaped)
        return "\n".join([head, f"| {' | '.join(rule)} |", *rows])


@dataclass(frozen=True)
class Section:
    """A titled part of a report: tables, then remarks."""

    title: str
    tables: Sequence[Table] = ()
    remarks: Sequence[str] = ()

    def text(self, width: int | None = None, *, colours: bool = False) -> str:
        columns = min(WIDTH, width or WIDTH)
        remarks = ["\n".join(_wrapped(one_line(line), columns)) for line in self.remarks]
        blocks = [table.text(width, colours=colours) for table in self.tables]
        blocks += ["\n".join(remarks)] if remarks else []
        title = textwrap.wrap(one_line(self.title), columns, break_on_hyphens=False)
        return "\n".join([*title, "-" * max(map(len, title), default=0), "\n\n".join(blocks)])

    def markdown(self) -> str:
        remarks = "\n".join(f"- {markdown_text(line)}" for line in self.remarks)
        blocks = [table.markdown() for table in self.tables] + ([remarks] if remarks else [])
        return f"## {markdown_text(self.title)}\n\n" + "\n\n".join(blocks)


def short(label: str) -> str:
    """A label that fits its column. The middle is left out, as the ends of run groups' names differ."""
    half = (_LABEL_WIDTH - 1) // 2
    return label if len(label) <= _LABEL_WIDTH else f"{label[:half]}…{label[-half:]}"


def _wrapped(text: str, width: int) -> list[str]:
    """The lines of a remark; no line begins with a sign of per cent."""
    whole = text.replace(" %", "\N{NO-BREAK SPACE}%")
    lines = textwrap.wrap(whole, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
    return [line.replace("\N{NO-BREAK SPACE}%", " %") for line in lines]


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"


def markdown_text(text: str) -> str:
    """Text that Markdown shows unchanged, also within a table."""
    text = one_line(text)
    for character in "\\`*_{}[]<>|~#":
        text = text.replace(character, f"\\{character}")
    return text
