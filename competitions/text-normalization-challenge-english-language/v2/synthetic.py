import csv
from pathlib import Path

import pandas as pd

from pytest_mlebench.authoring.synthetic import write_zipped_csv
from pytest_mlebench.authoring.tables import read_zipped_csv

from .. import synthetic as first
from ..synthetic import submissions as submissions


def make(raw: Path, seed: int) -> None:
    """Each sentence occurs twice."""
    first.make(raw, seed)
    path = raw / "en_train.csv.zip"
    tokens = read_zipped_csv(path, keep_default_na=False)
    again = tokens.assign(sentence_id=tokens["sentence_id"] + 10_000)
    path.unlink()
    write_zipped_csv(path, pd.concat([tokens, again]), "en_train.csv", quoting=csv.QUOTE_NONNUMERIC)
