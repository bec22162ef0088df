"""Plain tables, for a terminal and for Markdown."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_mlebench.reports.untrusted import one_line

WIDTH = 120


@dataclass(frozen=True)
class Table:
    """Cells in rows below heads; the columns in ``numbers`` are aligned to the right.

    Cells may hold untrusted text (see ``reports.untrusted``).
    """

    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    numbers: frozenset[str] = frozenset()

    def lines(self) -> list[str]:
        """The heads and each row as a line, with two spaces between columns."""
        rows = [[one_line(cell) for cell in row] for row in (self.heads, *self.rows)]
        widths = [max(len(row[k]) for row in rows) for k in range(len(self.heads))]
        return [
            "  ".join(
                cell.rjust(width) if head in self.numbers else cell.ljust(width)
                for head, cell, width in zip(self.heads, row, widths, strict=True)
            ).rstrip()
            for row in rows
        ]

    def text(self) -> str:
        """The table for a terminal."""
        return "\n".join(self.lines())

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

    def text(self) -> str:
        remarks = [
            textwrap.fill(one_line(line), WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
            for line in self.remarks
        ]
        blocks = [table.text() for table in self.tables] + (["\n".join(remarks)] if remarks else [])
        title = textwrap.wrap(one_line(self.title), WIDTH, break_on_hyphens=False)
        return "\n".join([*title, "-" * max(map(len, title), default=0), "\n\n".join(blocks)])

    def markdown(self) -> str:
        remarks = "\n".join(f"- {markdown_text(line)}" for line in self.remarks)
        blocks = [table.markdown() for table in self.tables] + ([remarks] if remarks else [])
        return f"## {markdown_text(self.title)}\n\n" + "\n\n".join(blocks)


def markdown_text(text: str) -> str:
    """Text that Markdown shows unchanged, also within a table."""
    text = one_line(text)
    for character in "\\`*_{}[]<>|~#":
        text = text.replace(character, f"\\{character}")
    return text
