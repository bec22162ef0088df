"""A competition's pages on Kaggle as one description in Markdown."""

from __future__ import annotations

import csv
import io
import math
import zipfile
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from pytest_mlebench.errors import DataError


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


class Scores(NamedTuple):
    """The scores of a leaderboard, and the name of the file that they came in ("" where it has none)."""

    values: list[float]
    file: str


def read_scores(content: bytes) -> Scores:
    """The scores of a leaderboard's download: a CSV file with a column Score, or a zip archive that holds one.

    Teams without a score are left out. Where an archive holds several leaderboards, the private one counts.
    Raises DataError.
    """
    file, unpacked = _unpack(content)
    table = csv.DictReader(io.StringIO(unpacked.decode("utf-8-sig", errors="replace"), newline=""))
    column = next((name for name in table.fieldnames or () if name.strip().lower() == "score"), None)
    if column is None:
        raise DataError(f"there is no column Score among {', '.join(table.fieldnames or ()) or 'no columns'}"[:200])
    return Scores(to_scores(row[column] or "" for row in table), file)


def to_scores(texts: Iterable[str]) -> list[float]:
    """Scores as numbers, in their order; teams without one are left out. Raises DataError."""
    scores = []
    for number, text in enumerate(map(str.strip, texts), 1):
        if text:
            try:
                scores.append(float(text))
            except ValueError as error:
                raise DataError(f"team {number}: {text[:50]!r} is not a score") from error
    scores = list(filter(math.isfinite, scores))
    if not scores:
        raise DataError("it holds no scores")
    return scores


def _unpack(content: bytes) -> tuple[str, bytes]:
    if not content.startswith(b"PK"):
        return "", content
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            names = [name for name in archive.namelist() if name.lower().endswith(".csv")]
            private = [name for name in names if "private" in name.lower()]
            if len(private or names) != 1:
                raise DataError(f"the archive holds {len(names)} tables, not one: {', '.join(names)[:200]}")
            name = (private or names)[0]
            return name, archive.read(name)
    except (zipfile.BadZipFile, EOFError, ValueError) as error:
        raise DataError(f"the archive is damaged: {error}") from error
