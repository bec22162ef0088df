from pathlib import Path

import pandas as pd

from pytest_mlebench.authoring import InvalidSubmission, align, require_columns
from pytest_mlebench.authoring.checks import AS_TEXT
from pytest_mlebench.authoring.metrics.multilabel import f1_micro
from pytest_mlebench.authoring.resampling import RowScores, ratio
from pytest_mlebench.authoring.tables import read_csv

READ_OPTIONS = AS_TEXT
KNOWN = "attribute_id"


def read_template(public: Path) -> pd.DataFrame:
    return _with_attributes(public / "sample_submission.csv", public / "labels.csv")


def read_answers(path: Path) -> pd.DataFrame:
    return _with_attributes(path, path.with_name("attributes.csv"))


def _with_attributes(rows: Path, attributes: Path) -> pd.DataFrame:
    table = read_csv(rows, **AS_TEXT)
    table.attrs[KNOWN] = frozenset(read_csv(attributes, usecols=[KNOWN], **AS_TEXT)[KNOWN])
    return table


def check(submission: pd.DataFrame, template: pd.DataFrame) -> list[frozenset[str]]:
    require_columns(submission, ["id", "attribute_ids"])
    known = template.attrs[KNOWN]
    for row, attributes in enumerate(_sets(submission), start=1):
        if unknown := attributes - known:
            raise InvalidSubmission(
                f"column 'attribute_ids', row {row}: {min(unknown)[:40]!r} is not an attribute in labels.csv"
            )
    return _sets(align(submission, template, on="id"))


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    return f1_micro(_sets(answers), check(submission, answers))


def row_scores(submission: pd.DataFrame, answers: pd.DataFrame) -> RowScores:
    pairs = list(zip(_sets(answers), check(submission, answers), strict=True))
    return ratio([2 * len(true & given) for true, given in pairs], [len(true) + len(given) for true, given in pairs])


def _sets(table: pd.DataFrame) -> list[frozenset[str]]:
    return [frozenset(labels.split()) for labels in table["attribute_ids"]]
