"""A competition's pages on Kaggle as one description in Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Page(NamedTuple):
    """A competition's page: short name, title or "", and text in HTML or (see ``mime_type``) Markdown."""

    name: str
    title: str
    content: str
    mime_type: str


def pages_to_markdown(title: str, pages: Sequence[Page]) -> str:
    """A competition's pages as one Markdown text, in Kaggle's order but for the data's description, which ends it.

    The rules are left out: they are no part of the task.
    """
    shown = [page for page in pages if page.name.lower() != "rules" and page.content.strip()]
    shown.sort(key=lambda page: page.name.lower() == "data-description")
    sections = [f"## {page.title or page.name.replace('-', ' ').capitalize()}\n\n{_markdown(page)}" for page in shown]
    return "\n\n".join([f"# {title}", *sections]) + "\n"


def _markdown(page: Page) -> str:
    if "markdown" in page.mime_type:
        return page.content.strip()
    from markdownify import markdownify

    # Agents read the text unrendered: an escaped column name would be another name.
    text = markdownify(page.content, heading_style="ATX", bullets="-", escape_underscores=False, escape_asterisks=False)
    return text.strip()
