from pathlib import Path

import pandas as pd

from pytest_mlebench.authoring.files import link_files
from pytest_mlebench.authoring.tables import split, write_csv


def prepare(raw: Path, public: Path, private: Path) -> None:
    images = sorted((raw / "train").glob("*/*.png"))
    table = pd.DataFrame([(path.name, path.parent.name) for path in images], columns=["file", "species"])
    train, test = split(table, test_size=0.14)
    write_csv(test, private / "answers.csv")
    write_csv(test.assign(species="Sugar beet"), public / "sample_submission.csv")
    link_files(train["species"] + "/" + train["file"], raw / "train", public / "train")
    flat = dict(zip(test["species"] + "/" + test["file"], test["file"], strict=True))
    link_files(flat, raw / "train", public / "test")
