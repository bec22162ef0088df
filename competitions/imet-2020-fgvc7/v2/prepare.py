from pathlib import Path

from pytest_mlebench.authoring.tables import read_csv, write_csv

from .. import prepare as first


def prepare(raw: Path, public: Path, private: Path) -> None:
    first.prepare(raw, public, private)
    write_csv(read_csv(raw / "labels.csv", usecols=["attribute_id"], dtype=str), private / "attributes.csv")
