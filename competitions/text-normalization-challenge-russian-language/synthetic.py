import csv
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.synthetic import first_value, malformed, write_zipped_csv

TOKENS = [
    ("PLAIN", "По", "По"),
    ("PLAIN", "состоянию", "состоянию"),
    ("PLAIN", "на", "на"),
    ("PLAIN", "ещё", "ещё"),
    ("PLAIN", "Julius", "д_trans ж_trans у_trans л_trans и_trans у_trans с_trans"),
    ("PLAIN", "NA", "н_trans а_trans"),
    ("PLAIN", "null", "null"),
    ("PLAIN", "nan", "nan"),
    ("PLAIN", "True", "True"),
    ("CARDINAL", "12", "двенадцать"),
    ("CARDINAL", "1 000,5", "тысяча целых и пять десятых"),
    ("CARDINAL", "007", "семь"),
    ("ORDINAL", "XIX", "девятнадцатого"),
    ("ORDINAL", "5-й", "пятый"),
    ("DATE", "12 февраля 2013", "двенадцатого февраля две тысячи тринадцатого года"),
    ("DATE", "1862 год", "тысяча восемьсот шестьдесят второй год"),
    ("LETTERS", "США", "с ш а"),
    ("MEASURE", "10%", "десять процентов"),
    ("VERBATIM", "№", "номер"),
    ("VERBATIM", "&", "и"),
    ("TELEPHONE", "5-86-1", "пять sil восемьдесят шесть sil один"),
    ("FRACTION", "1/2", "одна вторая"),
    ("TIME", "9:20", "девять часов двадцать минут"),
    ("ELECTRONIC", "ya.ru", "y a точка r u"),
    ("MONEY", "$3,16", "три доллара шестнадцать центов"),
]
MARKS = [".", ",", '"', "(", ")", "—", "'", ":", "\\", ";"]


def make(raw: Path, seed: int) -> None:
    make_sentences(raw, seed, 1)


def make_sentences(raw: Path, seed: int, times: int) -> None:
    """Write the data; each sentence occurs ``times`` times."""
    rng = np.random.default_rng(seed)
    sentences = [_sentence(rng) for _ in range(170)]
    rows = []
    for k in range(170):
        number = k if k < 60 else k + 3  # a gap in the numbering
        rows += [(number, token, *forms) for token, forms in enumerate(sentences[k // times])]
    train = pd.DataFrame(rows, columns=["sentence_id", "token_id", "class", "before", "after"])
    test = pd.DataFrame({"sentence_id": 0, "token_id": range(5), "before": [before for _, before, _ in TOKENS[:5]]})
    sample = pd.DataFrame({"id": "0_" + test.token_id.astype(str), "after": test.before})
    _write(raw / "ru_train.csv.zip", train)
    _write(raw / "ru_test_2.csv.zip", test)
    _write(raw / "ru_test.csv.zip", test.head(2))
    _write(raw / "ru_sample_submission_2.csv.zip", sample)
    _write(raw / "ru_sample_submission.csv.zip", sample)


def _sentence(rng: np.random.Generator) -> list[tuple[str, str, str]]:
    tokens = [TOKENS[i] for i in rng.integers(0, len(TOKENS), rng.integers(2, 7))]
    if rng.random() < 0.5:
        tokens.insert(rng.integers(0, len(tokens)), _mark(rng))
    return [*tokens, _mark(rng)]


def _mark(rng: np.random.Generator) -> tuple[str, str, str]:
    mark = str(rng.choice(MARKS))
    return "PUNCT", mark, mark


def _write(path: Path, table: pd.DataFrame) -> None:
    write_zipped_csv(path, table, path.name.removesuffix(".zip"), quoting=csv.QUOTE_NONNUMERIC)


def submissions(public: Path, private: Path, rng: np.random.Generator) -> dict[str, Any]:
    shown = public if (public / "sample_submission.csv").exists() else private
    answers, sample = (
        pd.read_csv(path, keep_default_na=False, dtype=str)
        for path in (private / "answers.csv", shown / "sample_submission.csv")
    )
    n = len(answers)
    noisy = answers.assign(after=np.where(rng.random(n) < 0.3, sample.after, answers.after))
    parts = noisy.id.str.split("_", expand=True).set_axis(["sentence_id", "token_id"], axis=1)

    shuffled = noisy.sample(frac=1, random_state=0)
    return {
        **malformed(noisy, "id", "9999_0", "after", "missing_column renamed_column"),
        "noisy": noisy,
        "noisy_shuffled_quoted.csv": shuffled.to_csv(index=False, quoting=csv.QUOTE_NONNUMERIC),
        "as_input": sample,
        "columns_swapped": noisy[["after", "id"]],
        "extra_column": noisy.assign(before="x"),
        "missing_as_words": answers.assign(after=answers.after.replace("", "N/A")),
        "mostly_empty": answers.assign(after=np.where(rng.random(n) < 0.8, "", answers.after)),
        "other_case": answers.assign(after=answers.after.str.lower()),
        "trailing_space": answers.assign(after=answers.after + " "),
        "leading_space": answers.assign(after=" " + answers.after),
        "numbers": answers.assign(after=12),
        "fractions": answers.assign(after=rng.random(n).round(3)),
        "booleans": answers.assign(after=answers.after == "True"),
        "empty_column": answers.assign(after=""),
        **first_value(noisy, "after", one_empty="", newline="двенадцать\nодин"),
        "empty_id": noisy.assign(id=["", *noisy.id.iloc[1:]]),
        "original_columns": parts.assign(after=noisy.after),
    }
