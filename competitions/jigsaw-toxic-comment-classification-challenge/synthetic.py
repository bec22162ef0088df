import csv
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.synthetic import standard, write_zipped_csv

from .labels import CLASSES

WORDS = "you the article talk page edit please stop source vandal wiki revert user why not fool nonsense thanks".split()
ODD = [
    *("NA", "null", "nan", "None", "", "12345", "007", "1e5", " leading and trailing ", "tab\there"),
    *('He said ""no""', '"quoted"', "a,b,c", "two\nlines", 'three\n\n"lines", really', "carriage\r\nreturn"),
    *("naïve café – 日本語 🙂", "'single'", "#hash", "\\n backslash", "N/A, thanks", "True"),
]


def make(raw: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, n_test = 80 + seed, 70 + seed
    train = _comments(rng, n)
    train[CLASSES] = _labels(rng, n)
    test = _comments(rng, n_test)
    test["comment_text"] = [*ODD, *test.comment_text[len(ODD) :]]
    labels = _labels(rng, n_test)
    labels[12 + rng.choice(n_test - 12, 18, replace=False)] = -1  # rows that do not count
    answers = test[["id"]].assign(**dict(zip(CLASSES, labels.T, strict=True)))
    sample = test[["id"]].assign(**dict.fromkeys(CLASSES, 0.5)).assign(toxic=0)
    tables = {"train": train, "test": test, "test_labels": answers, "sample_submission": sample}
    for name, table in tables.items():
        write_zipped_csv(raw / f"{name}.csv.zip", table, f"{name}.csv", quoting=csv.QUOTE_NONNUMERIC)


def _comments(rng: np.random.Generator, n: int) -> pd.DataFrame:
    ids = ["".join(rng.choice(list("0123456789abcdef"), 16)) for _ in range(n)]
    return pd.DataFrame({"id": ids, "comment_text": [_comment(rng) for _ in range(n)]})


def _comment(rng: np.random.Generator) -> str:
    if rng.random() < 0.3:
        return str(rng.choice(np.array(ODD, dtype=object)))
    return " ".join(rng.choice(WORDS, rng.integers(2, 9)))


def _labels(rng: np.random.Generator, n: int) -> np.ndarray:
    labels = (rng.random((n, 6)) < [0.4, 0.15, 0.3, 0.15, 0.3, 0.2]).astype(int)
    for k in range(6):  # every class occurs in rows that count
        labels[2 * k : 2 * k + 2, k] = 1
    return labels


def submissions(public: Path, private: Path, rng: np.random.Generator) -> dict[str, Any]:
    answers = pd.read_csv(private / "test.csv")
    labels = answers[CLASSES].to_numpy()
    p = np.clip(0.25 + 0.3 * (labels > 0) + rng.normal(0, 0.25, labels.shape), 0, 1)

    def table(scores: np.ndarray) -> pd.DataFrame:
        return answers[["id"]].join(pd.DataFrame(scores, columns=CLASSES))

    def threat(row: int, value: Any) -> pd.DataFrame:
        return noisy.assign(threat=noisy.threat.astype(object).where(noisy.index != row, value))

    def without_and_twice(without: int, twice: int) -> pd.DataFrame:
        return pd.concat([noisy.drop(index=without), noisy.loc[[twice]]])

    noisy = table(p)
    kept, ignored = np.flatnonzero(labels.sum(axis=1) >= 0), np.flatnonzero(labels.sum(axis=1) < 0)
    return {
        "ties": table(p.round(1)),
        "logits": table(p * 30 - 12),
        "hard_ints": table((p > 0.4).astype(int)),
        "one_constant_class": noisy.assign(threat=0.1),
        "inverted": table(1 - p),
        "id_last": noisy[[*CLASSES, "id"]],
        "classes_permuted": noisy[["id", "identity_hate", "toxic", "obscene", "severe_toxic", "insult", "threat"]],
        "extra_column": noisy.assign(extra=0.5),
        "duplicate_kept_for_kept": without_and_twice(kept[0], kept[-1]),
        "duplicate_kept_for_ignored": without_and_twice(ignored[0], kept[3]),
        "duplicate_ignored_for_ignored": without_and_twice(ignored[0], ignored[-1]),
        "missing_class": noisy.drop(columns="threat"),
        "nan_in_kept_row": threat(kept[1], None),
        "nan_in_ignored_row": threat(ignored[1], None),
        "text_in_kept_row": threat(kept[1], "rude"),
        "text_in_ignored_row": threat(ignored[1], "rude"),
        "infinite_in_kept_row": threat(kept[1], np.inf),
        **standard(noisy, "id", "zzzz", also="missing_id", without="duplicate_id"),
    }
