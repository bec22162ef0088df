from pathlib import Path

from pytest_mlebench.authoring.corrections import hold_out_groups
from pytest_mlebench.authoring.tables import read_zipped_csv

from .. import prepare as first


def prepare(raw: Path, public: Path, private: Path) -> None:
    phrases = read_zipped_csv(raw / "train.tsv.zip", sep="\t", keep_default_na=False)
    train, test = hold_out_groups("SentenceId")(phrases, test_size=0.3)
    first.write_sides(train, test, public, private)
