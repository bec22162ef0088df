from pathlib import Path
from typing import Any

from pytest_mlebench.data.authoring.archives import write_zip
from pytest_mlebench.data.authoring.corrections import Split
from pytest_mlebench.data.authoring.tables import read_zipped_csv, split, write_csv


def prepare(raw: Path, public: Path, private: Path, *, split: Split = split, **options: Any) -> None:
    """``options`` are those of pandas' ``read_csv``."""
    train, test = split(read_zipped_csv(raw / "train.tsv.zip", sep="\t", **options), test_size=0.3)
    write_csv(test, private / "answers.csv")
    write_csv(test[["PhraseId"]].assign(Sentiment=2), public / "sampleSubmission.csv")
    for name, rows in (("train.tsv", train), ("test.tsv", test.drop(columns="Sentiment"))):
        write_zip(public / f"{name}.zip", {name: rows.to_csv(sep="\t", index=False)})
