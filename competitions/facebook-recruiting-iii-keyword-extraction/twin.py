import csv
from pathlib import Path

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.synthetic import write_zipped_csv
from pytest_mlebench.authoring.worlds.labels import by_size
from pytest_mlebench.authoring.worlds.text import lexicon, pick, zipf, zipf_ranks

TAGS, JARGON = 120, 6


def make(raw: Path, rng: np.random.Generator, size: str) -> dict[str, pd.DataFrame]:
    n, other = by_size(size, 900, 6000, 20000), 20
    # the world: tags, their jargon in text and code, tags that imply others, and words without a tag
    taken: set[str] = set()
    words, tags = lexicon(rng, 600, taken), lexicon(rng, TAGS, taken)
    jargon = [lexicon(rng, JARGON, taken) for _ in range(TAGS)]
    parent = np.where(rng.random(TAGS) < 0.4, rng.integers(TAGS, size=TAGS), np.arange(TAGS))
    dashed = rng.random(TAGS) < 0.2
    names = np.array([f"{a}-{b}" if d else a for a, b, d in zip(tags, lexicon(rng, TAGS, taken), dashed, strict=False)])

    rows = []
    for id in range(1, n + other + 1):
        chosen = set(zipf_ranks(rng, TAGS, rng.integers(1, 4)).tolist())
        chosen |= {int(parent[tag]) for tag in chosen}
        named = {tag for tag in chosen if rng.random() < 0.35}
        hinted = {tag for tag in chosen if tag in named or rng.random() < 0.9}
        title = zipf(rng, words, rng.integers(3, 8)) + [names[tag].replace("-", " ") for tag in sorted(named)]
        hints = [pick(rng, jargon[tag]) for tag in sorted(hinted) for _ in range(rng.integers(1, 4))]
        hints += [pick(rng, jargon[rng.integers(TAGS)])] if rng.random() < 0.3 else []  # an unrelated hint
        cut = int(rng.integers(len(hints) + 1))
        text, code = (
            [*zipf(rng, words, k), *part] for k, part in ((rng.integers(8, 40), hints[:cut]), (4, hints[cut:]))
        )
        body = (
            f"<p>{' '.join(_shuffled(rng, text))}</p>\n\n<pre><code>{' = '.join(_shuffled(rng, code))}\n</code></pre>\n"
        )
        known = {tag for tag in hinted if tag in named or set(jargon[tag]) & set(hints)}
        best = (known | {int(parent[tag]) for tag in known}) & chosen
        rows.append(
            (id, " ".join(_shuffled(rng, title)) + "?", body, *(_joined(names, s) for s in (chosen, named, best)))
        )
    table = pd.DataFrame(rows, columns=["Id", "Title", "Body", "Tags", "simple", "ceiling"])
    table["simple"] = table["simple"].replace("", names[0])
    train, test = table.loc[: n - 1, ["Id", "Title", "Body", "Tags"]], table.loc[n:, ["Id", "Title", "Body"]]
    write_zipped_csv(raw / "Train.zip", train, "Train.csv", quoting=csv.QUOTE_ALL)
    write_zipped_csv(raw / "Test.zip", test, "Test.csv", quoting=csv.QUOTE_ALL)
    sample = test[["Id"]].assign(Tags="javascript c# python php java")
    sample.to_csv(raw / "SampleSubmission.csv", index=False, quoting=csv.QUOTE_ALL)
    known = table.set_index("Id")
    return {name: known[[name]].set_axis(["Tags"], axis=1) for name in ("simple", "ceiling")}


def _shuffled(rng: np.random.Generator, words: list[str]) -> list[str]:
    return [words[k] for k in rng.permutation(len(words))]


def _joined(names: np.ndarray, tags: set[int]) -> str:
    return " ".join(names[sorted(tags)])
