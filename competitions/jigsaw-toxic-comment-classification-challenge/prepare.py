from pathlib import Path

from pytest_mlebench.authoring.tables import read_zipped_csv, write_csv

from .labels import CLASSES


def prepare(raw: Path, public: Path, private: Path) -> None:
    write_csv(read_zipped_csv(raw / "train.csv.zip"), public / "train.csv")
    write_csv(read_zipped_csv(raw / "test.csv.zip"), public / "test.csv")
    write_csv(read_zipped_csv(raw / "test_labels.csv.zip"), private / "test.csv")
    sample = read_zipped_csv(raw / "sample_submission.csv.zip").assign(**dict.fromkeys(CLASSES, 0.5))
    write_csv(sample, public / "sample_submission.csv")
