from pathlib import Path

from pytest_mlebench.authoring.corrections import hold_out_groups, near_duplicates
from pytest_mlebench.authoring.tables import read_csv

from .. import prepare as first


def prepare(raw: Path, public: Path, private: Path) -> None:
    split = hold_out_groups(lambda labels: near_duplicates(raw / "train" / f"{id}.jpg" for id in labels["id"]))
    train, test = split(read_csv(raw / "labels.csv"), test_size=0.1)
    first.write_sides(train, test, raw, public, private)
