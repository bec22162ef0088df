from pathlib import Path

from pytest_mlebench.authoring.tables import split

from .. import prepare as first

BATCHES = 5
"""A million events, as many as the original's test had."""


def prepare(raw: Path, public: Path, private: Path) -> None:
    first.write_sides(*split(first.read_batches(raw), test_size=BATCHES), raw, public, private)
