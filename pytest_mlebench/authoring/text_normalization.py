"""Preparation for the Text Normalization Challenges: tokens of sentences with their spoken forms, in any language."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pandas as pd

from pytest_mlebench.authoring.archives import ZipWriter
from pytest_mlebench.authoring.corrections import hold_out_groups
from pytest_mlebench.authoring.tables import read_zipped_csv, split_groups, write_csv

_TEXTS: dict[str, Any] = {"dtype": dict.fromkeys(["class", "before", "after"], str), "keep_default_na": False}


def prepare_text_normalization(raw: Path, public: Path, private: Path, language: str) -> None:
    """Hold out a tenth of the sentences of ``<language>_train.csv``, as the reference does."""
    tokens = read_zipped_csv(raw / f"{language}_train.csv.zip")
    train, test = split_groups(tokens, "sentence_id", test_size=0.1)
    write_sides(train, test, public, private, language, samples=private)


def prepare_corrected(raw: Path, public: Path, private: Path, language: str) -> None:
    """Prepare the data as ``prepare_text_normalization`` does, but keep equal sentences on one side.

    A token such as "null" remains text. The sample submission is also public as a plain file.
    """
    tokens = read_zipped_csv(raw / f"{language}_train.csv.zip", **_TEXTS)
    train, test = hold_out_groups(_equal_sentences)(tokens, test_size=0.1)
    write_sides(train, test, public, private, language, samples=public)


def _equal_sentences(tokens: pd.DataFrame) -> pd.Series[int]:
    """Return a number for each token's sentence, equal for equal sentences: a sum of hashes of positions and tokens."""
    hashes = pd.util.hash_pandas_object(tokens[["token_id", "before"]], index=False)
    return hashes.groupby(tokens["sentence_id"]).transform("sum")


def write_sides(
    train: pd.DataFrame, test: pd.DataFrame, public: Path, private: Path, language: str, *, samples: Path
) -> None:
    """Write the tables of both sides with renumbered sentences, and the sample submission to the folder ``samples``."""
    train, test = _renumber(train), _renumber(test)
    ids = test["sentence_id"].astype(str) + "_" + test["token_id"].astype(str)
    answers, sample = (pd.DataFrame({"id": ids, "after": test[column]}) for column in ("after", "before"))
    write_csv(answers, private / "answers.csv", quoting=csv.QUOTE_NONNUMERIC)
    write_csv(sample, samples / "sample_submission.csv", quoting=csv.QUOTE_NONNUMERIC)
    _write_zipped(train, public, f"{language}_train.csv")
    _write_zipped(test[["sentence_id", "token_id", "before"]], public, f"{language}_test_2.csv")
    _write_zipped(sample, public, f"{language}_sample_submission_2.csv")


def _renumber(tokens: pd.DataFrame) -> pd.DataFrame:
    return tokens.assign(sentence_id=pd.factorize(tokens["sentence_id"])[0])


def _write_zipped(table: pd.DataFrame, folder: Path, name: str) -> None:
    with ZipWriter(folder / f"{name}.zip") as archive, archive.open(name) as member:
        table.to_csv(member, mode="wb", index=False, quoting=csv.QUOTE_NONNUMERIC)
