from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression

from pytest_mlebench.authoring.archives import write_zip
from pytest_mlebench.authoring.worlds.labels import by_size, class_probabilities, draw_classes
from pytest_mlebench.authoring.worlds.text import Language

from .labels import AUTHORS


def make(raw: Path, rng: np.random.Generator, size: str) -> dict[str, pd.DataFrame]:
    n, other = by_size(size, 800, 5500, 16000), 40
    # the world: which words and turns of phrase each author likes
    language = Language(rng, scales=3)
    texts = language.write(rng, rng.integers(8, 45, n + other), turned=0.15)
    full, plain = language.read(texts)
    p = class_probabilities(full + np.array([0.8, 0, 0]), accuracy=0.88)
    author = draw_classes(p, rng)
    ids = [f"id{i:05d}" for i in rng.choice(28000, n + other, replace=False)]
    sentences = [
        f'"{text}"' if spoken else text for text, spoken in zip(texts, rng.random(len(ids)) < 0.08, strict=False)
    ]
    table = pd.DataFrame({"id": ids, "text": sentences, "author": np.array(AUTHORS)[author]})
    train, test = table[:n], table[n:].drop(columns="author")
    sample = test[["id"]].assign(
        **dict(zip(AUTHORS, (0.403493538995863, 0.287808366106543, 0.308698094897594), strict=False))
    )
    write_zip(raw / "train.zip", {"train.csv": train.to_csv(index=False, quoting=1)})
    write_zip(raw / "test.zip", {"test.csv": test.to_csv(index=False, quoting=1)})
    write_zip(raw / "sample_submission.zip", {"sample_submission.csv": sample.to_csv(index=False)})
    simple = LogisticRegression().fit(plain, author).predict_proba(plain)
    index = table["id"]
    return {name: pd.DataFrame(values, index, AUTHORS) for name, values in (("simple", simple), ("ceiling", p))}
