from pathlib import Path

import pandas as pd

from pytest_mlebench.authoring.tables import hold_out, split

from .. import prepare as first

FAULTY = ["00109", "00123", "00709"]
"""Subjects whose series the organisers declared faulty."""


def prepare(raw: Path, public: Path, private: Path) -> None:
    """Keep the faulty subjects for training, and stratify the others by label."""
    sound, faulty = hold_out(first.read_labels(raw), "BraTS21ID", FAULTY)
    train, test = split(sound, test_size=0.1, stratify=sound["MGMT_value"])
    first.write_sides(pd.concat([train, faulty]), test, raw, public, private)
