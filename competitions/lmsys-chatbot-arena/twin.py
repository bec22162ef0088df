import json
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression

from pytest_mlebench.authoring.worlds.labels import by_size, class_probabilities, draw_classes
from pytest_mlebench.authoring.worlds.text import Language, lexicon

from .grade import VERDICTS
from .synthetic import COLUMNS


def make(raw: Path, rng: np.random.Generator, size: str) -> dict[str, pd.DataFrame]:
    n = by_size(size, 800, 5500, 14000)
    # the world: which words and lengths people like, and how good each model is
    language, models = Language(rng, cues=60), np.array([f"{word}-{k}b" for k, word in enumerate(lexicon(rng, 30), 7)])
    skill, turns = rng.normal(0, 0.8, len(models)), rng.choice([1, 2, 3], n, p=[0.8, 0.15, 0.05])
    sides = np.array([rng.choice(len(models), 2, replace=False) for _ in range(n)])
    asked = np.array(language.write(rng, rng.integers(3, 12, turns.sum()), density=0), dtype=object)
    prompts = [json.dumps(list(part)) for part in np.split(asked, np.cumsum(turns)[:-1])]
    answers, full, plain = [], [], []
    for side in (0, 1):
        leaning = np.repeat(skill[sides[:, side]] + rng.normal(0, 0.8, n), turns)
        texts = language.write(rng, rng.integers(5, 45, len(leaning)), leaning[:, None])
        owner = np.repeat(np.arange(n), turns)
        good, obvious = (np.bincount(owner, scores[:, 0]) for scores in language.read(texts))
        length = np.log(np.bincount(owner, [len(text.split()) for text in texts]))
        full.append(good + 1.5 * length)
        plain.append(np.c_[obvious, length])
        parts = np.split(np.array(texts, dtype=object), np.cumsum(turns)[:-1])
        answers.append([json.dumps(list(part)) for part in parts])
    better = full[0] - full[1]
    p = class_probabilities(np.c_[better, -better, 1.5 - 0.5 * np.abs(better)], accuracy=0.78)
    verdict = draw_classes(p, rng)
    ids = np.sort(rng.choice(4_000_000_000, n, replace=False))
    values = [ids, *models[sides].T, prompts, *answers, *np.eye(3, dtype=int)[verdict].T]
    table = pd.DataFrame(dict(zip(COLUMNS, values, strict=False)))
    table.to_csv(raw / "train.csv", index=False)
    test = table[["id", "prompt", "response_a", "response_b"]].head(3)
    test.to_csv(raw / "test.csv", index=False)
    test[["id"]].assign(**dict.fromkeys(VERDICTS, 1 / 3)).to_csv(raw / "sample_submission.csv", index=False)
    ahead = plain[0] - plain[1]
    features = np.c_[ahead, np.abs(ahead)]
    simple = LogisticRegression().fit(features, verdict).predict_proba(features)
    return {name: pd.DataFrame(values, table["id"], VERDICTS) for name, values in (("simple", simple), ("ceiling", p))}
