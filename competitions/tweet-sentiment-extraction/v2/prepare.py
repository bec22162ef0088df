from pathlib import Path

from pytest_mlebench.authoring.tables import read_csv, split

from .. import prepare as first


def prepare(raw: Path, public: Path, private: Path) -> None:
    train, test = split(read_csv(raw / "train.csv", keep_default_na=False), test_size=0.1)
    first.write_sides(train, test, public, private)
