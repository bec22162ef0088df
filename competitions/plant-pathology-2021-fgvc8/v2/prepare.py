from pathlib import Path

from pytest_mlebench.authoring.corrections import hold_out_groups, near_duplicates
from pytest_mlebench.authoring.tables import read_csv

from .. import prepare as first


def prepare(raw: Path, public: Path, private: Path) -> None:
    split = hold_out_groups(lambda leaves: near_duplicates(raw / "train_images" / name for name in leaves["image"]))
    train, test = split(read_csv(raw / "train.csv"), test_size=0.2)
    first.write_sides(train, test, raw, public, private)
