from pathlib import Path

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.worlds.labels import by_size, random_names
from pytest_mlebench.authoring.worlds.text import lexicon

LEVELS = np.array([0, 0.25, 0.5, 0.75, 1])
IDEAS, WAYS, FIELDS = 48, 4, 8
"""Number of ideas, of words for each idea, and of fields, to which ideas belong."""
SECTIONS = "ABCDEFGH"


def make(raw: Path, rng: np.random.Generator, size: str) -> dict[str, pd.DataFrame]:
    n, other, count = by_size(size, 900, 6000, 14000), 30, by_size(size, 40, 140, 250)
    # the world: words for the same idea, ideas of the same field, and sections in which fields are related
    words = np.array(lexicon(rng, IDEAS * WAYS))
    idea = rng.permutation(np.repeat(np.arange(IDEAS), WAYS))
    field = rng.permutation(np.arange(IDEAS) % FIELDS)
    broad = rng.normal(0, 0.1, len(words))  # some words are broader than others
    near = rng.random((len(SECTIONS), FIELDS, FIELDS)) < 0.25
    near |= near.transpose(0, 2, 1)
    anchors = rng.integers(len(words), size=(count, 2))
    section, number = rng.integers(len(SECTIONS), size=count), rng.integers(1, 63, count)

    row = rng.integers(count, size=n + other)
    anchor, target = anchors[row], np.empty((n + other, 2), dtype=int)
    for place in (0, 1):
        kin = [np.flatnonzero(idea == i) for i in range(IDEAS)]
        kind = rng.choice(4, n + other, p=[0.3, 0.25, 0.25, 0.2])
        for k, (first, how) in enumerate(zip(anchor[:, place], kind, strict=False)):
            near_ideas = np.flatnonzero(field == field[idea[first]])
            pools = [[first], kin[idea[first]], kin[rng.choice(near_ideas)], np.arange(len(words))]
            target[k, place] = rng.choice(pools[how])
    same, alike = anchor == target, idea[anchor] == idea[target]
    akin = field[idea[anchor]] == field[idea[target]]
    related = near[section[row][:, None], field[idea[anchor]], field[idea[target]]]
    likeness = np.select([same, alike, akin, related], [1, 0.85, 0.5, 0.3], 0)
    mean = (likeness @ [0.35, 0.65] + broad[anchor].sum(axis=1) + broad[target].sum(axis=1)).clip(0, 1)
    mean[same.all(axis=1)] = 1
    raters = mean + rng.normal(0, 0.09, n + other)
    score = LEVELS[np.abs(raters[:, None] - LEVELS).argmin(axis=1)]

    phrases = [[" ".join(words[pair]) for pair in pairs] for pairs in (anchor, target)]
    contexts = [f"{SECTIONS[section[k]]}{number[k]:02d}" for k in row]
    names = random_names(rng, n + other, 16)
    table = pd.DataFrame({"id": names, "anchor": phrases[0], "target": phrases[1], "context": contexts, "score": score})
    table[:n].to_csv(raw / "train.csv", index=False)
    table[n:].drop(columns="score").to_csv(raw / "test.csv", index=False)
    table.loc[n:, ["id"]].assign(score=0).to_csv(raw / "sample_submission.csv", index=False)
    seen = np.where(same, 1, 0.3) @ [0.35, 0.65]  # which words are shared
    guesses = {"simple": seen, "ceiling": mean}
    return {name: pd.DataFrame({"score": values}, table["id"]) for name, values in guesses.items()}
