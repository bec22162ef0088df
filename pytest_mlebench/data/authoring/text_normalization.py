"""The Text Normalization Challenge's data: tokens of sentences with their spoken forms, whatever the language."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pandas as pd

from pytest_mlebench.data.authoring.archives import ZipWriter
from pytest_mlebench.data.authoring.corrections import Split
from pytest_mlebench.data.authoring.tables import read_zipped_csv, split_groups, write_csv

_TEXTS: dict[str, Any] = {"dtype": dict.fromkeys(["class", "before", "after"], str), "keep_default_na": False}


def prepare_text_normalization(
    raw: Path, public: Path, private: Path, language: str, *, as_written: bool = False, split: Split | None = None
) -> None:
    """Hold out a tenth of the sentences of ``<language>_train.csv``; sentences are numbered anew on either side.

    With ``as_written`` a token such as "null" stays what it is, and the sample submission is public as it is, too.
    """
    tokens = read_zipped_csv(raw / f"{language}_train.csv.zip", **(_TEXTS if as_written else {}))
    sides = split(tokens, 0.1) if split else split_groups(tokens, "sentence_id", test_size=0.1)
    train, test = map(_renumber, sides)
    ids = test["sentence_id"].astype(str) + "_" + test["token_id"].astype(str)
    answers, sample = (pd.DataFrame({"id": ids, "after": test[column]}) for column in ("after", "before"))
    write_csv(answers, private / "answers.csv", quoting=csv.QUOTE_NONNUMERIC)
    shown = public if as_written else private
    write_csv(sample, shown / "sample_submission.csv", quoting=csv.QUOTE_NONNUMERIC)
    _write_zipped(train, public, f"{language}_train.csv")
    _write_zipped(test[["sentence_id", "token_id", "before"]], public, f"{language}_test_2.csv")
    _write_zipped(sample, public, f"{language}_sample_submission_2.csv")


def _renumber(tokens: pd.DataFrame) -> pd.DataFrame:
    return tokens.assign(sentence_id=pd.factorize(tokens["sentence_id"])[0])


def _write_zipped(table: pd.DataFrame, folder: Path, name: str) -> None:
    with ZipWriter(folder / f"{name}.zip") as archive, archive.open(name) as member:
        table.to_csv(member, mode="wb", index=False, quoting=csv.QUOTE_NONNUMERIC)
