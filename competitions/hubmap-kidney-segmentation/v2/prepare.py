from pathlib import Path

from pytest_mlebench.authoring.tables import read_csv

from .. import prepare as first


def prepare(raw: Path, public: Path, private: Path) -> None:
    first.prepare(raw, public, private)
    for id in read_csv(private / "test.csv")["id"]:
        (public / "test" / f"{id}.json").unlink()
