from pathlib import Path

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.archives import write_zip
from pytest_mlebench.authoring.worlds.labels import by_size
from pytest_mlebench.authoring.worlds.text import Language


def make(raw: Path, rng: np.random.Generator, size: str) -> dict[str, pd.DataFrame]:
    sentences, other = (by_size(size, *counts) for counts in ((60, 700, 1500), (10, 60, 200)))
    # the world: words of praise and blame, and how many of them make a phrase somewhat or very positive or negative
    language = Language(rng, cues=60)
    texts = language.write(rng, rng.integers(6, 20, sentences + other), density=0.3, marks=False)
    rows = [(number, phrase) for number, text in enumerate(texts, 1) for phrase in _phrases(rng, text.split())]
    table = pd.DataFrame(rows, columns=["SentenceId", "Phrase"])
    full, plain = (scores[:, 0] for scores in language.read(table["Phrase"]))
    levels = [-2.2, -0.4, 0.4, 2.2]
    raters = full + 0.35 * rng.normal(size=len(table)) * (1 + 0.4 * np.abs(full))
    table.insert(0, "PhraseId", np.arange(1, len(table) + 1))
    table["Sentiment"] = np.digitize(raters, levels)
    known = table["SentenceId"] <= sentences
    for name, part in (("train.tsv", table[known]), ("test.tsv", table[~known].drop(columns="Sentiment"))):
        write_zip(raw / f"{name}.zip", {name: part.to_csv(sep="\t", index=False)})
    table.loc[~known, ["PhraseId"]].assign(Sentiment=2).to_csv(raw / "sampleSubmission.csv", index=False)
    guesses = {"simple": np.digitize(plain, levels), "ceiling": np.digitize(full, levels)}
    return {name: pd.DataFrame({"Sentiment": guess}, table["PhraseId"]) for name, guess in guesses.items()}


def _phrases(rng: np.random.Generator, words: list[str]) -> list[str]:
    """Return the sentence and the distinct phrases from splitting it recursively."""
    if len(words) < 2:
        return [" ".join(words)]
    cut = int(rng.integers(1, len(words)))
    parts = [part for side in (words[:cut], words[cut:]) if rng.random() < 0.75 for part in _phrases(rng, side)]
    return list(dict.fromkeys([" ".join(words), *parts]))
