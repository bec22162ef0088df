"""Pictures of run groups as self-contained SVG, for the HTML report and as files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pytest_mlebench.errors import UsageError
from pytest_mlebench.results.group import RunGroupResults
from pytest_mlebench.results.pictures.heat_map import heat_map
from pytest_mlebench.results.pictures.medal_rates import medal_rates
from pytest_mlebench.results.pictures.runs import known_leaderboards
from pytest_mlebench.results.pictures.svg import Panel, Picture
from pytest_mlebench.results.pictures.thresholds import score_picture
from pytest_mlebench.results.pictures.time_spent import time_picture
from pytest_mlebench.results.published import published_results
from pytest_mlebench.results.side_by_side import side_by_side
from pytest_mlebench.results.summary import summarise

__all__ = ["Panel", "Picture", "heat_map", "medal_rates", "pictures", "score_picture", "time_picture", "write_pictures"]


def pictures(groups: Sequence[RunGroupResults], *, pad_missing: bool = False) -> list[Picture]:
    """All pictures of run groups; none where no run has a record. For ``pad_missing`` see ``summarise``."""
    together = side_by_side(groups)
    records = together.records
    if not records:
        return []
    rates = medal_rates(summarise(groups, pad_missing=pad_missing), published_results())
    drawn = [rates, heat_map(records, together.planned)]
    if boards := known_leaderboards(records):
        drawn.append(score_picture(records, boards))
    return [*drawn, time_picture(records)]


def write_pictures(groups: Sequence[RunGroupResults], folder: Path, *, pad_missing: bool = False) -> list[Path]:
    """Write each picture of the groups as ``<name>.svg`` and return the files; raises UsageError where it cannot."""
    drawn = {folder / f"{picture.name}.svg": picture for picture in pictures(groups, pad_missing=pad_missing)}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, picture in drawn.items():
            path.write_text(picture.file(), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"pictures cannot be written to {folder}: {error.strerror}; name another folder") from error
    return list(drawn)
