from pathlib import Path

import pandas as pd

from pytest_mlebench.authoring.tables import hold_out, split

from .. import prepare as first

FAULTY = ["00109", "00123", "00709"]
"""Subjects of whose series the organisers say that they are faulty."""


def prepare(raw: Path, public: Path, private: Path) -> None:
    """The faulty subjects are for training; of the others the test has a share of each label."""
    sound, faulty = hold_out(first.read_labels(raw), "BraTS21ID", FAULTY)
    train, test = split(sound, test_size=0.1, stratify=sound["MGMT_value"])
    first.write_sides(pd.concat([train, faulty]), test, raw, public, private)
