from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.archives import write_zip
from pytest_mlebench.authoring.synthetic import first_value, standard

WORDS = """a the film movie plot never quite funny dull , . 's n't moving , but -LRB- -RRB- `` '' -- café naïve ½
10-course "good" clichés""".split()
MISSING = ["NA", "null", "None", "nan", "N/A"]  # according to pandas


def make(raw: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    phrases = _phrases(rng, 34)
    for word, at in zip(MISSING, rng.choice(len(phrases), len(MISSING), replace=False), strict=True):
        phrases[at] = (phrases[at][0], word)
    phrases[-1] = (phrases[-1][0], 'a phrase, with a comma and "quotes"')
    labels = rng.choice(5, len(phrases), p=[0.1, 0.15, 0.5, 0.15, 0.1])
    train = [(i, *phrase, label) for i, (phrase, label) in enumerate(zip(_quoted(phrases), labels, strict=True), 1)]
    _write(raw / "train.tsv.zip", ("PhraseId", "SentenceId", "Phrase", "Sentiment"), train)
    test = [(i, *phrase) for i, phrase in enumerate(_quoted(_phrases(rng, 5)), len(train) + 1)]
    _write(raw / "test.tsv.zip", ("PhraseId", "SentenceId", "Phrase"), test)
    sample = pd.DataFrame({"PhraseId": [id for id, *_ in test], "Sentiment": 2})
    sample.to_csv(raw / "sampleSubmission.csv", index=False)


def _phrases(rng: np.random.Generator, sentences: int) -> list[tuple[int, str]]:
    rows: list[tuple[int, str]] = []
    for sentence in range(1, sentences + 1):
        words = rng.choice(WORDS, rng.integers(4, 9))
        seen = set()
        for _ in range(rng.integers(3, 8)):
            start = rng.integers(0, len(words))
            stop = rng.integers(start + 1, len(words) + 1)
            text = " ".join(words[start:stop]) if rows else " ".join(words)
            if text not in seen:
                seen.add(text)
                rows.append((sentence, text))
    return rows


def _quoted(phrases: Iterable[tuple[int, str]]) -> list[tuple[int, str]]:
    return [
        (sentence, '"' + text.replace('"', '""') + '"' if '"' in text else text)  # a comma needs no quotes
        for sentence, text in phrases
    ]


def _write(path: Path, header: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    lines = ("\t".join(map(str, row)) + "\n" for row in (header, *rows))
    write_zip(path, {path.name.removesuffix(".zip"): "".join(lines)})


def submissions(public: Path, private: Path, rng: np.random.Generator) -> dict[str, Any]:
    answers = pd.read_csv(private / "answers.csv")[["PhraseId", "Sentiment"]]
    truth = answers.Sentiment
    noisy = answers.assign(Sentiment=np.where(rng.random(len(truth)) < 0.35, rng.integers(0, 5, len(truth)), truth))

    return {
        **standard(noisy, "PhraseId", 99999, "Sentiment", "missing_column renamed_column all_text nan_prediction"),
        "all_zero": answers.assign(Sentiment=0),
        "unseen_label": answers.assign(Sentiment=np.where(truth == 2, 7, truth)),
        "negative_label": answers.assign(Sentiment=np.where(truth == 0, -1, truth)),
        "whole_floats": noisy.assign(Sentiment=noisy.Sentiment.astype(float)),
        "columns_swapped": noisy[["Sentiment", "PhraseId"]],
        "extra_column": noisy.assign(Phrase="x, y"),
        "booleans": answers.assign(Sentiment=truth > 2),
        "float_id": noisy.assign(PhraseId=noisy.PhraseId.astype(float)),
        "fractions": noisy.assign(Sentiment=noisy.Sentiment + 0.25),
        **first_value(noisy, "Sentiment", one_fraction=1.5, one_text="good"),
        "text_id": noisy.assign(PhraseId=["x", *noisy.PhraseId.iloc[1:]]),
    }
