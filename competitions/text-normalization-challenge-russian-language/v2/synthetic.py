from pathlib import Path

from .. import synthetic as first
from ..synthetic import submissions as submissions


def make(raw: Path, seed: int) -> None:
    first.make_sentences(raw, seed, 2)
