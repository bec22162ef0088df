"""The Text Normalization Challenge's data: tokens of sentences with their spoken forms, whatever the language."""

from __future__ import annotations

import csv
import tempfile
from pathlib import Path

import pandas as pd

from pytest_mlebench.data.archives import write_zip, zip_member
from pytest_mlebench.data.tables import read_csv, split, write_csv


def prepare_text_normalization(raw: Path, public: Path, private: Path, language: str) -> None:
    """Hold out a tenth of the sentences of ``<language>_train.csv``; sentences are numbered anew on either side."""
    with zip_member(raw / f"{language}_train.csv.zip", f"{language}_train.csv") as file:
        tokens = read_csv(file)
    _, held_out = split(tokens["sentence_id"].unique(), test_size=0.1)
    is_test = tokens["sentence_id"].isin(held_out)
    train, test = _renumber(tokens[~is_test]), _renumber(tokens[is_test])
    ids = test["sentence_id"].astype(str) + "_" + test["token_id"].astype(str)
    sample = private / "sample_submission.csv"
    _write(pd.DataFrame({"id": ids, "after": test["after"]}), private / "answers.csv")
    _write(pd.DataFrame({"id": ids, "after": test["before"]}), sample)
    _write_zipped(sample, public / f"{language}_sample_submission_2.csv.zip")
    with tempfile.TemporaryDirectory(dir=public.parent) as scratch:
        for name, table in (("train", train), ("test_2", test[["sentence_id", "token_id", "before"]])):
            path = Path(scratch) / f"{language}_{name}.csv"
            _write(table, path)
            _write_zipped(path, public / f"{path.name}.zip")


def _renumber(tokens: pd.DataFrame) -> pd.DataFrame:
    return tokens.assign(sentence_id=pd.factorize(tokens["sentence_id"])[0])


def _write(table: pd.DataFrame, path: Path) -> None:
    write_csv(table, path, quoting=csv.QUOTE_NONNUMERIC)


def _write_zipped(path: Path, archive: Path) -> None:
    write_zip(archive, {archive.name.removesuffix(".zip"): path})
