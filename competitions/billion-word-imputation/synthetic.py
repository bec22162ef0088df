import csv
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.archives import write_zip
from pytest_mlebench.authoring.synthetic import first_value

from .prepare import HEADER

WORDS = (
    "the of to and in a said that is for on was with he it as at by his from have be are has will year new last not "
    "but more one its they who two first after about government years company people market police president café "
    "naïve 日本 €5 España"
).split()
PUNCTUATION = [",", ",", ",", '"', "'s", "--", "(", ")", ";"]
ODD = [
    "He said .",
    "Yes .",  # two words: none may be removed
    "Hello",
    "",
    '" Quoted , from end to end . "',
    "He said : \" It is , '' he added . \"",
    "A line\u00a0with a no-break space .",  # also separates words
    "The euro ( € 5 ) and the café — 日本 .",
    "  Leading and   doubled  spaces . ",
    "Tabs\tinside\tthe line .",
    "A line separator \u2028 inside .",
    "5,000 , 6,000 \\ and a backslash .",
]


def make(raw: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    lines = []
    for _ in range(2600):
        if rng.random() < 0.3:
            lines.append(ODD[rng.integers(len(ODD))])
            continue
        n = rng.integers(4, 15)
        words = [str(rng.choice(PUNCTUATION) if rng.random() < 0.12 else rng.choice(WORDS)) for _ in range(n)]
        lines.append(" ".join([words[0].capitalize(), *words[1:], "."]))
    sentences = "\n".join(lines) + ("\n" if seed % 2 else "")  # even seeds: no final line break
    test = "".join(f'{k},"the missing {k - 1} ."\n' for k in range(1, 6))
    write_zip(raw / "train_v2.txt.zip", {"train_v2.txt": sentences})
    write_zip(raw / "test_v2.txt.zip", {"test_v2.txt": HEADER + test})


def submissions(public: Path, private: Path, rng: np.random.Generator) -> dict[str, Any]:
    answers = pd.read_csv(private / "test.csv")
    gaps = pd.read_csv(private / "sample_submission.csv")

    def insert(sentence: str) -> str:
        words = sentence.split()
        words.insert(rng.integers(1, len(words)), str(rng.choice(WORDS)))
        return " ".join(words)

    def quoted(table: pd.DataFrame) -> str:
        return table.to_csv(index=False, quoting=csv.QUOTE_NONNUMERIC)

    def first(sentence: str | None) -> pd.DataFrame:
        return noisy.assign(sentence=[sentence, *noisy.sentence[1:]])

    pairs = zip(gaps.sentence, answers.sentence, strict=True)
    noisy = gaps.assign(sentence=[true if rng.random() < 0.3 else insert(given) for given, true in pairs])
    return {
        "noisy.csv": quoted(noisy),
        "noisy_unquoted": noisy,
        "noisy_shuffled.csv": quoted(noisy.sample(frac=1, random_state=0)),
        "column_order_extra.csv": quoted(noisy.assign(extra=1)[["extra", "sentence", "id"]]),
        "upper_case.csv": quoted(noisy.assign(sentence=noisy.sentence.str.upper())),
        "one_letter.csv": quoted(noisy.assign(sentence="x")),
        "long.csv": quoted(noisy.assign(sentence=noisy.sentence + " 日本\U0001f433" * 5)),
        "single_space.csv": quoted(noisy.assign(sentence=" ")),
        "decomposed.csv": quoted(noisy.assign(sentence=noisy.sentence.str.normalize("NFD"))),
        "empty_sentence.csv": quoted(first(None)),
        "all_empty": noisy.assign(sentence=""),
        "word_NA.csv": quoted(first("NA")),
        "numbers": noisy.assign(sentence=range(len(noisy))),
        **first_value(noisy, "sentence", one_number="7"),
        "missing_row.csv": quoted(noisy.iloc[1:]),
        "extra_row.csv": quoted(pd.concat([noisy, noisy.tail(1).assign(id=10**6)])),
        "duplicate_id.csv": quoted(pd.concat([noisy.iloc[1:], noisy.tail(1)])),
        "unknown_id.csv": quoted(noisy.assign(id=[10**6, *noisy.id[1:]])),
        "ids_from_one.csv": quoted(noisy.assign(id=noisy.id + 1)),
        "missing_column.csv": quoted(noisy[["id"]]),
        "renamed_column.csv": quoted(noisy.rename(columns={"sentence": "text"})),
        "header_only.csv": HEADER,
        "empty.csv": "",
    }
