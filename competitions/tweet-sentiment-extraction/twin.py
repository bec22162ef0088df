from pathlib import Path

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.worlds.labels import by_size, random_names
from pytest_mlebench.authoring.worlds.text import lexicon, pick, zipf


def make(raw: Path, rng: np.random.Generator, size: str) -> dict[str, pd.DataFrame]:
    n = by_size(size, 1000, 6000, 16000)
    world = World(rng)
    rows = [world.tweet(rng) for _ in range(n)]
    table = pd.DataFrame(rows, columns=["text", "selected_text", "sentiment", "simple", "ceiling"])
    table.insert(0, "textID", random_names(rng, n, 10))
    train = table[["textID", "text", "selected_text", "sentiment"]].copy()
    train.to_csv(raw / "train.csv", index=False)
    test = train.sample(20, random_state=1)
    test.drop(columns="selected_text").to_csv(raw / "test.csv", index=False)
    test[["textID"]].assign(selected_text="").to_csv(raw / "sample_submission.csv", index=False)
    known = table.set_index("textID")
    known["floor"] = known["text"].str.strip()
    return {name: known[[name]].set_axis(["selected_text"], axis=1) for name in ("floor", "simple", "ceiling")}


class World:
    """A feeling is one of its words, or a negated word of the other feeling, between words that often surround it."""

    def __init__(self, rng: np.random.Generator) -> None:
        taken: set[str] = set()
        self.plain, self.feelings = lexicon(rng, 500, taken), [lexicon(rng, 60, taken) for _ in range(2)]
        self.before, self.turners, self.after = lexicon(rng, 8, taken), lexicon(rng, 3, taken), lexicon(rng, 8, taken)

    def phrase(self, rng: np.random.Generator, feeling: int) -> tuple[list[str], str]:
        turned = rng.random() < 0.25
        core = zipf(rng, self.feelings[feeling ^ turned], 1)
        start = [str(word) for word in rng.choice(self.before, rng.integers(0, 3), replace=False)]
        end = [pick(rng, self.after)] if rng.random() < 0.5 else []
        return [*start, *([pick(rng, self.turners)] if turned else []), *core, *end], core[0]

    def tweet(self, rng: np.random.Generator) -> tuple[str, ...]:
        kind = int(rng.choice(3, p=[0.31, 0.29, 0.40]))
        words = zipf(rng, self.plain, rng.integers(5, 15))
        feeling = kind if kind < 2 else int(rng.integers(2))
        right, core = self.phrase(rng, feeling)
        cut = int(rng.integers(0, len(words) + 1))
        tweet = [*words[:cut], *right, *words[cut:]]
        if rng.random() < 0.4:  # the other feeling occurs too
            other, _ = self.phrase(rng, 1 - feeling)
            tweet = [*other, *tweet] if rng.random() < 0.5 else [*tweet, *other]
        tweet += ["http://x.co/" + words[0]] if rng.random() < 0.1 else []
        text = (" " if rng.random() < 0.3 else "") + " ".join(tweet)
        if kind == 2:
            cut = 1 if rng.random() < 0.1 else 0
            return text, text.strip()[cut:], "neutral", text.strip(), text.strip()
        best = " ".join(right)
        taken, chance = best, rng.random()
        if chance < 0.1:  # some annotators selected all of it, or too little
            taken = text.strip()
        elif chance < 0.2:
            taken = " ".join(right[:2])
        elif chance < 0.3:  # as in the real data, some selections begin within a word
            taken = best[1:]
        simple = core if core in self.feelings[kind][:15] else text.strip()
        return text, taken, ("negative", "positive")[kind], simple, best
