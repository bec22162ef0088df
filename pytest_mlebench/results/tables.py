"""Plain tables, for a terminal and for Markdown."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

WIDTH = 120


@dataclass(frozen=True)
class Table:
    """Cells in rows below heads; columns of numbers are aligned to the right."""

    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    numbers: frozenset[str] = frozenset()

    def text(self) -> str:
        """In columns, two spaces apart."""
        lines = [self.heads, *self.rows]
        widths = [max(len(line[k]) for line in lines) for k in range(len(self.heads))]
        return "\n".join(
            "  ".join(
                cell.rjust(width) if head in self.numbers else cell.ljust(width)
                for head, cell, width in zip(self.heads, line, widths, strict=True)
            ).rstrip()
            for line in lines
        )

    def markdown(self) -> str:
        """As a table of GitHub's Markdown."""
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
            textwrap.fill(line, WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
            for line in self.remarks
        ]
        blocks = [table.text() for table in self.tables] + (["\n".join(remarks)] if remarks else [])
        return f"{self.title}\n{'-' * len(self.title)}\n" + "\n\n".join(blocks)

    def markdown(self) -> str:
        remarks = "\n".join(f"- {markdown_text(line)}" for line in self.remarks)
        blocks = [table.markdown() for table in self.tables] + ([remarks] if remarks else [])
        return f"## {markdown_text(self.title)}\n\n" + "\n\n".join(blocks)


def markdown_text(text: str) -> str:
    """Text that Markdown shows as it is, within a table too."""
    for character in "\\`*_{}[]<>|~#":
        text = text.replace(character, f"\\{character}")
    return " ".join(text.split())
