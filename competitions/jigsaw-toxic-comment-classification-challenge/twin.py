import csv
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import expit

from pytest_mlebench.authoring.synthetic import write_zipped_csv
from pytest_mlebench.authoring.worlds.labels import by_size, positive_probabilities, random_names
from pytest_mlebench.authoring.worlds.text import Language

from .labels import CLASSES

POSITIVE = dict(zip(CLASSES, (0.2, 0.05, 0.12, 0.04, 0.12, 0.05), strict=False))
ACCURACY = dict(zip(CLASSES, (0.92, 0.97, 0.95, 0.98, 0.94, 0.97), strict=False))


def make(raw: Path, rng: np.random.Generator, size: str) -> dict[str, pd.DataFrame]:
    n, n_test, ignored = (by_size(size, *counts) for counts in ((600, 3500, 10000), (150, 700, 3000), (50, 150, 600)))
    # the world: words that are rude in six ways; all ways increase with the first one
    language, count = Language(rng, scales=6), n + n_test + ignored
    mood = rng.normal(size=(count, 1))
    texts = language.write(rng, rng.integers(8, 60, count), 0.8 * mood + 0.6 * rng.normal(size=(count, 6)))
    mixing = np.eye(6) + np.r_[[np.r_[0, np.full(5, 0.8)]], np.zeros((5, 6))]
    full, plain = (scores @ mixing for scores in language.read(texts))
    chances = {
        name: positive_probabilities(score, accuracy=ACCURACY[name], positive=POSITIVE[name])
        for name, score in zip(CLASSES, full.T, strict=False)
    }
    breaks = rng.random(count) < 0.3
    texts = [text.replace(". ", ".\n\n", 1) if broken else text for text, broken in zip(texts, breaks, strict=False)]
    ids = random_names(rng, count, 16)
    comments = pd.DataFrame({"id": ids, "comment_text": texts})
    labels = pd.DataFrame({name: (rng.random(count) < p).astype(int) for name, p in chances.items()})
    answers = comments[["id"]].join(labels)[n:]
    answers.iloc[rng.permutation(len(answers))[:ignored], 1:] = -1  # rows that do not count
    sample = answers[["id"]].assign(**dict.fromkeys(CLASSES, 0.5))
    tables = {"train": comments.join(labels)[:n], "test": comments[n:], "test_labels": answers}
    for name, table in {**tables, "sample_submission": sample}.items():
        write_zipped_csv(raw / f"{name}.csv.zip", table, f"{name}.csv", quoting=csv.QUOTE_NONNUMERIC)
    index = pd.Index(ids, name="id")
    return {"simple": pd.DataFrame(expit(plain), index, CLASSES), "ceiling": pd.DataFrame(chances, index)}
