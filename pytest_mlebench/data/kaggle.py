"""Kaggle's competitions: credentials, rules, archives, pages and leaderboards, through Kaggle's own client."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pytest_mlebench.catalog import Competition
from pytest_mlebench.data.downloads import Progress, Size


class KaggleDownloads:
    """Downloads from Kaggle (see Downloads); nothing is imported or looked up before it is needed."""

    def check(self, competitions: Sequence[Competition]) -> None:
        raise NotImplementedError

    def size(self, competition: Competition) -> Size:
        raise NotImplementedError

    def download(self, competition: Competition, target: Path, progress: Progress) -> None:
        raise NotImplementedError

    def description(self, competition: Competition) -> str:
        raise NotImplementedError

    def leaderboard(self, competition: Competition) -> list[float]:
        raise NotImplementedError
