import csv
from pathlib import Path

import pandas as pd

from pytest_mlebench.authoring.archives import zip_member
from pytest_mlebench.authoring.synthetic import write_zipped_csv
from pytest_mlebench.authoring.tables import read_csv

from .. import synthetic as first
from ..synthetic import submissions as submissions

COPIES = 4


def make(raw: Path, seed: int) -> None:
    """Each question occurs several times, with the same tags."""
    first.make(raw, seed)
    with zip_member(raw / "Train.zip") as file:
        questions = read_csv(file, dtype=str, keep_default_na=False)
    questions["Title"] = [f"{title} {id}" for title, id in zip(questions["Title"], questions["Id"], strict=True)]
    copies = pd.concat([questions] * COPIES).sample(frac=1, random_state=seed)
    copies["Id"] = range(1, len(copies) + 1)
    (raw / "Train.zip").unlink()
    write_zipped_csv(raw / "Train.zip", copies, "Train.csv", quoting=csv.QUOTE_ALL)
