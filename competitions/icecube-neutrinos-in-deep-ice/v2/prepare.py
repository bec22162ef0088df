from pathlib import Path

from pytest_mlebench.authoring.tables import split

from .. import prepare as first

BATCHES = 5
"""Number of test batches: a million events, as in the original test set."""


def prepare(raw: Path, public: Path, private: Path) -> None:
    first.write_sides(*split(first.read_batches(raw), test_size=BATCHES), raw, public, private)
