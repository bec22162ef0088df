from pathlib import Path

from pytest_mlebench.authoring.corrections import hold_out_groups
from pytest_mlebench.authoring.tables import read_csv, write_csv

from .. import prepare as first

SEGMENT = ["eeg_label_offset_seconds", "spectrogram_label_offset_seconds"]


def prepare(raw: Path, public: Path, private: Path) -> None:
    train, test = hold_out_groups("patient_id")(read_csv(raw / "train.csv"), test_size=0.1)
    test = test.drop_duplicates("eeg_id")
    first.write_sides(train, test, raw, public, private)
    write_csv(test[["spectrogram_id", "eeg_id", "patient_id", *SEGMENT]], public / "test.csv")
