from pathlib import Path

from .. import synthetic as first
from ..synthetic import submissions as submissions


def make(raw: Path, seed: int) -> None:
    """Games have several plays each."""
    first.make_games(raw, seed, 12)
