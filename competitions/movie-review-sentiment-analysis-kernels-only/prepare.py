from pathlib import Path

import pandas as pd

from pytest_mlebench.authoring.archives import write_zip
from pytest_mlebench.authoring.tables import read_zipped_csv, split, write_csv


def prepare(raw: Path, public: Path, private: Path) -> None:
    write_sides(*split(read_zipped_csv(raw / "train.tsv.zip", sep="\t"), test_size=0.3), public, private)


def write_sides(train: pd.DataFrame, test: pd.DataFrame, public: Path, private: Path) -> None:
    write_csv(test, private / "answers.csv")
    write_csv(test[["PhraseId"]].assign(Sentiment=2), public / "sampleSubmission.csv")
    for name, rows in (("train.tsv", train), ("test.tsv", test.drop(columns="Sentiment"))):
        write_zip(public / f"{name}.zip", {name: rows.to_csv(sep="\t", index=False)})
