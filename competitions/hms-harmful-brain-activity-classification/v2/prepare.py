from pathlib import Path

from pytest_mlebench.data.authoring.corrections import hold_out_groups
from pytest_mlebench.data.authoring.tables import read_csv

from .v1 import prepare as first


def prepare(raw: Path, public: Path, private: Path) -> None:
    train, test = hold_out_groups("patient_id")(read_csv(raw / "train.csv"), test_size=0.1)
    first.write_sides(train, test.drop_duplicates("eeg_id"), raw, public, private)
