from pathlib import Path

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.worlds.labels import add_noise, by_size
from pytest_mlebench.authoring.worlds.text import Language, lexicon

from .grade import IDENTITIES as COUNTED
from .synthetic import IDENTITIES, KINDS

TOXIC = 0.25


def make(raw: Path, rng: np.random.Generator, size: str) -> dict[str, pd.DataFrame]:
    n, n_test = (by_size(size, *counts) for counts in ((4000, 12000, 30000), (200, 700, 2500)))
    count = n + n_test + 20
    # the world: rude words, and names of groups, which are not rude but more frequent in rude comments
    language, names = Language(rng), np.array(lexicon(rng, 2 * len(IDENTITIES))).reshape(-1, 2)
    leaning = rng.normal(size=(count, 1))
    texts = language.write(rng, rng.integers(8, 40, count), leaning)
    chances = np.where(np.isin(IDENTITIES, COUNTED), 0.13, 0.02) * (1 + 0.5 * np.tanh(leaning))
    mentioned = rng.random((count, len(IDENTITIES))) < chances
    for row, group in zip(*np.nonzero(mentioned), strict=False):
        words = texts[row].split(" ")
        words.insert(int(rng.integers(len(words))), str(rng.choice(names[group])))
        texts[row] = " ".join(words)
    full, plain = (scores[:, 0] for scores in language.read(texts))
    raters = _ranks(add_noise(full, rng, r2=0.85))
    # at least half of the raters find the upper quarter toxic; values are tenths
    toxicity = np.interp(raters, [0, 1 - TOXIC - 0.2, 1 - TOXIC, 1], [0, 0.05, 0.5, 1]).round(1)

    table = pd.DataFrame({"id": rng.choice(10**6, count, replace=False) + 59848, "comment_text": texts})
    seconds = rng.integers(0, 86400 * 700, count)
    created = pd.Timestamp("2015-10-01") + pd.to_timedelta(seconds, unit="s")
    table["created_date"] = created.strftime("%Y-%m-%d %H:%M:%S.000000+00")
    table["publication_id"] = rng.integers(2, 120, count)
    table["parent_id"] = np.where(rng.random(count) < 0.5, np.nan, rng.integers(10**5, 10**6, count))
    table["article_id"] = rng.integers(10**5, 4 * 10**5, count)
    table["rating"] = np.where(rng.random(count) < 0.93, "approved", "rejected")
    for reaction in ("funny", "wow", "sad", "likes", "disagree"):
        table[reaction] = rng.poisson(0.4, count)
    table["target"] = toxicity
    for kind in KINDS:
        table[kind] = np.where(rng.random(count) < 0.3, toxicity * rng.integers(0, 11, count) / 10, 0).round(2)
    table[IDENTITIES] = np.where(mentioned, rng.choice([0.5, 0.8, 1.0], mentioned.shape), 0.0)
    table["identity_annotator_count"] = rng.integers(3, 11, count)
    table["toxicity_annotator_count"] = rng.integers(3, 11, count)
    test = table[n:].rename(columns={"target": "toxicity"})
    train = table[:n].copy()
    train.loc[rng.random(n) < 0.3, IDENTITIES] = np.nan  # comments without annotations
    train.to_csv(raw / "train.csv", index=False)
    test[:n_test].to_csv(raw / "test_private_expanded.csv", index=False)
    test[n_test:].to_csv(raw / "test_public_expanded.csv", index=False)
    test[["id", "comment_text"]][:n_test].to_csv(raw / "test.csv", index=False)
    test[["id"]][:n_test].assign(prediction=0.0).to_csv(raw / "sample_submission.csv", index=False)
    # predictions are cut at one half, so as many are above as are toxic
    guesses = {"simple": _ranks(plain + 2 * mentioned.any(axis=1)), "ceiling": _ranks(full)}
    index = table["id"]
    return {
        name: pd.DataFrame({"prediction": np.interp(share, [0, 1 - TOXIC, 1], [0, 0.5, 1])}, index)
        for name, share in guesses.items()
    }


def _ranks(values: np.ndarray) -> np.ndarray:
    return np.asarray(values.argsort(kind="stable").argsort(kind="stable") / len(values))
