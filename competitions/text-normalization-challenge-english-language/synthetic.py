import csv
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.synthetic import standard, write_zipped_csv

PLAIN = "the quick fox of Brillantaisia species was in a plant début 日本 Na none nan".split()
SPECIAL = [
    ("DATE", "2006", "two thousand six"),
    ("DATE", "1 May 2010", "the first of may twenty ten"),
    ("CARDINAL", "1,234", "one thousand two hundred thirty four"),
    ("CARDINAL", "007", "seven"),
    ("CARDINAL", "12", "twelve"),
    ("DECIMAL", "3.50", "three point five o"),
    ("MEASURE", "5 km", "five kilometers"),
    ("MONEY", "$3.16", "three dollars, sixteen cents"),
    ("ORDINAL", "2nd", "second"),
    ("TIME", "10:30", "ten thirty"),
    ("ELECTRONIC", 'a"b".com', "a b dot c o m"),
    ("LETTERS", "IUCN", "i u c n"),
    ("LETTERS", "NA", "n a"),
    ("LETTERS", "N/A", "n a"),
    ("VERBATIM", "é", "e acute"),
    ("VERBATIM", "#", "number"),
    ("FRACTION", "1/2", "one half"),
    ("TELEPHONE", "1-2-3", "one sil two sil three"),
    ("DIGIT", "1e5", "one e five"),
    ("ADDRESS", "A4", "a four"),
]
READ_AS_MISSING = [(kind, word, word) for kind, word in
    [("PLAIN", "null"), ("PLAIN", "NaN"), ("LETTERS", "NULL"), ("PLAIN", "None"), ("PLAIN", "nan")]]  # fmt: skip
MARKS = [".", ",", ";", '"', "(", ")", "'", "—", "``"]


def make(raw: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, number = [], 0
    for _ in range(330):
        rows += [(number, token, *forms) for token, forms in enumerate(_sentence(rng))]
        number += 1 if rng.random() < 0.9 else int(rng.integers(2, 5))  # numbers may be skipped
    train = pd.DataFrame(rows, columns=["sentence_id", "token_id", "class", "before", "after"])
    _write(raw / "en_train.csv.zip", train)
    words = [(number, token, before) for number in range(3) for token, (_, before, _) in enumerate(_sentence(rng))]
    test = pd.DataFrame(words, columns=["sentence_id", "token_id", "before"])
    ids = test.sentence_id.astype(str) + "_" + test.token_id.astype(str)
    for suffix in ("", "_2"):
        _write(raw / f"en_test{suffix}.csv.zip", test)
        _write(raw / f"en_sample_submission{suffix}.csv.zip", pd.DataFrame({"id": ids, "after": test.before}))


def _sentence(rng: np.random.Generator) -> list[tuple[str, str, str]]:
    tokens = []
    for _ in range(rng.integers(2, 9)):
        kind = rng.random()
        if kind < 0.55:
            word = str(rng.choice(PLAIN))
            tokens.append(("PLAIN", word, word))
        else:
            choices = SPECIAL if kind < 0.9 else READ_AS_MISSING
            tokens.append(choices[rng.integers(len(choices))])
        if rng.random() < 0.15:
            mark = str(rng.choice(MARKS))
            tokens.append(("PUNCT", mark, mark))
    return [*tokens, ("PUNCT", ".", ".")]


def _write(path: Path, table: pd.DataFrame) -> None:
    write_zipped_csv(path, table, path.name.removesuffix(".zip"), quoting=csv.QUOTE_NONNUMERIC)


def submissions(public: Path, private: Path, rng: np.random.Generator) -> dict[str, Any]:
    shown = public if (public / "sample_submission.csv").exists() else private
    sample = pd.read_csv(shown / "sample_submission.csv", keep_default_na=False)
    answers = pd.read_csv(private / "answers.csv", keep_default_na=False)
    n = len(answers)
    noisy = answers.assign(after=np.where(rng.random(n) < 0.25, sample.after, answers.after))
    words = rng.choice(["nan", "NULL", "None", "n/a"], n)
    return {
        "noisy_quoted.csv": noisy.to_csv(index=False, quoting=csv.QUOTE_NONNUMERIC),
        "upper_case": answers.assign(after=answers.after.str.upper()),
        "trailing_space": answers.assign(after=answers.after + " "),
        "words_for_missing": answers.assign(after=np.where(answers.after == "", words, answers.after)),
        "all_missing": answers.assign(after=""),
        "constant_number": answers.assign(after=12),
        "columns_swapped_and_extra": noisy.assign(w=1)[["w", "after", "id"]],
        "duplicate_for_missing": pd.concat([noisy.iloc[1:], noisy.tail(1)]),
        "missing_id_value": noisy.assign(id=["", *noisy.id.iloc[1:]]),
        "missing_id_column": noisy[["after"]],
        **standard(
            noisy, "id", "99999_0", "after", "missing_column renamed_column", without="duplicate_id header_only"
        ),
    }
