"""Competitions, splits, leaderboards and medals."""

from pytest_mlebench.catalog.catalogue import Catalogue, default_catalogue
from pytest_mlebench.catalog.competition import Competition
from pytest_mlebench.catalog.schema import Leaderboard, medal_ranks

__all__ = ["Catalogue", "Competition", "Leaderboard", "default_catalogue", "medal_ranks"]
