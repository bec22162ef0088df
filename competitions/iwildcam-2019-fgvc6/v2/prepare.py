from pathlib import Path

from pytest_mlebench.authoring.tables import read_csv, write_csv

from .. import prepare as first


def prepare(raw: Path, public: Path, private: Path) -> None:
    first.prepare(raw, public, private)
    sample = public / "sample_submission.csv"
    write_csv(read_csv(sample)[["Id", "Category"]], sample)
