from pathlib import Path

from pytest_mlebench.authoring.corrections import hold_out_groups
from pytest_mlebench.authoring.tables import read_csv

from .. import prepare as first


def prepare(raw: Path, public: Path, private: Path) -> None:
    train, test = hold_out_groups("question_body")(read_csv(raw / "train.csv"), test_size=0.1)
    first.write_sides(train, test.drop_duplicates("question_body"), public, private)
