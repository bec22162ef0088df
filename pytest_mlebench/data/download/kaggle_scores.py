"""Reading the scores of a leaderboard that Kaggle gives."""

from __future__ import annotations

import csv
import io
import math
import zipfile
from collections.abc import Iterable
from typing import NamedTuple

from pytest_mlebench.errors import DataError


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
