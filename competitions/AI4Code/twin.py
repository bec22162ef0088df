import json
from pathlib import Path

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.worlds.labels import by_size, random_names
from pytest_mlebench.authoring.worlds.text import lexicon, pick, zipf

from .prepare import TEST_ROWS

TOPICS = 60
MENTIONS = 4


def make(raw: Path, rng: np.random.Generator, size: str) -> dict[str, pd.DataFrame]:
    families, test = (by_size(size, *counts) for counts in ((90, 350, 1000), (60, 160, 500)))
    world = World(rng)
    sizes = rng.choice([1, 2, 3], families, p=[0.7, 0.2, 0.1])
    ids = random_names(rng, int(sizes.sum()) + 1, 14)
    ancestors = random_names(rng, families + 1, 8)
    rows: list[tuple[str, str, str | None]] = []
    orders: dict[str, list[str]] = {}
    (raw / "train").mkdir()
    for family, count in enumerate(sizes):
        topics = world.topics(rng)
        members = ids[len(orders) : len(orders) + count]
        for k, id in enumerate(members):
            kept = [topic for topic in topics if k == 0 or rng.random() < 0.8] or topics
            orders[id] = world.notebook(rng, kept, raw / "train" / f"{id}.json")
            rows.append((id, ancestors[family], None if k == 0 else members[0]))
    # prepare.py fills the test set up to 20,000 rows: a notebook that is listed many times takes most of them
    orders[ids[-1]] = world.notebook(rng, world.topics(rng), raw / "train" / f"{ids[-1]}.json")
    rows += [(ids[-1], ancestors[-1], None)] * (TEST_ROWS - test)
    order = rng.permutation(len(rows))
    table = pd.DataFrame([rows[k] for k in order], columns=["id", "ancestor_id", "parent_id"])
    table.to_csv(raw / "train_ancestors.csv", index=False)
    predictions = pd.DataFrame.from_dict(orders, orient="index", columns=["true", "simple", "ceiling"])
    predictions = predictions.rename_axis("id").sample(frac=1, random_state=int(rng.integers(2**31)))
    shown = predictions["true"].rename("cell_order").reset_index()
    shown.to_csv(raw / "train_orders.csv", index=False)
    (raw / "test").mkdir()
    for id in shown["id"].head(2):
        (raw / "test" / f"{id}.json").write_bytes((raw / "train" / f"{id}.json").read_bytes())
    shown.head(2).to_csv(raw / "sample_submission.csv", index=False)
    return {name: predictions[[name]].set_axis(["cell_order"], axis=1) for name in ("simple", "ceiling")}


def deal(submission: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """Shuffle the cells within each notebook, because cells of other notebooks are invalid."""
    orders = [" ".join(rng.permutation(cells.split())) for cells in submission["cell_order"]]
    return submission.assign(cell_order=orders)


class World:
    """Topics occur in about the same order in all notebooks, and have their own words in texts and in code.

    Texts mention names of several code cells, each after a cue word. One of the cue words means that the name's cell
    comes next. Only the orders of the training notebooks reveal which one.
    """

    def __init__(self, rng: np.random.Generator) -> None:
        taken: set[str] = set()
        self.words, self.names = lexicon(rng, 400, taken), lexicon(rng, 300, taken)
        self.cues = lexicon(rng, MENTIONS, taken)
        self.spoken = [lexicon(rng, 8, taken) for _ in range(TOPICS)]
        self.coded = [lexicon(rng, 8, taken) for _ in range(TOPICS)]

    def topics(self, rng: np.random.Generator) -> list[int]:
        chosen = rng.choice(TOPICS, rng.integers(5, 15), replace=False)
        return [int(topic) for topic in sorted(chosen, key=lambda topic: topic + rng.normal(0, 4))]

    def mentions(self, rng: np.random.Generator, name: str, called: list[str]) -> list[str]:
        """Return the name after the cue word that matters, and other names of the notebook after the other cues."""
        others = [other for other in called if other != name]
        chosen = [name, *(others[k] for k in rng.permutation(len(others))[: MENTIONS - 1])]
        return [f"{cue} `{word}`" for cue, word in zip(self.cues, chosen, strict=False)]

    def notebook(self, rng: np.random.Generator, topics: list[int], path: Path) -> list[str]:
        """Write a notebook; returns its true order, and the orders from shared names alone and from topics as well."""
        codes: list[tuple[str, str]] = []
        texts: list[tuple[str, str]] = []
        true: list[str] = []
        named: dict[str, int] = {}  # the code cell after each text, from names alone; below, from topics as well
        meant: dict[str, int] = {}
        cells = iter(random_names(rng, 5 * len(topics) + 1, 8))
        called = [self.names[k] for k in rng.choice(len(self.names), len(topics), replace=False)]
        for topic, name in zip(topics, called, strict=True):
            if rng.random() < 0.75:
                cell, shared = next(cells), rng.random() < 0.35
                heading = "## " if rng.random() < 0.5 else ""
                words = [pick(rng, self.spoken[topic]) for _ in range(rng.integers(1, 4))]
                words = [*zipf(rng, self.words, 4), *words, *(self.mentions(rng, name, called) if shared else [])]
                texts.append((cell, heading + " ".join(words[k] for k in rng.permutation(len(words)))))
                meant[cell] = len(codes)
                if shared:
                    named[cell] = len(codes)
                true.append(cell)
            for _ in range(rng.integers(1, 4)):
                cell = next(cells)
                calls = [f"{name}.{pick(rng, self.coded[topic])}({pick(rng, self.words)})" for _ in range(2)]
                codes.append((cell, "\n".join(calls)))
                true.append(cell)
        for cell, _ in texts:  # some texts are at random places
            if rng.random() < 0.1:
                true.remove(cell)
                true.insert(int(rng.integers(len(true) + 1)), cell)
        shown = [*codes, *(texts[k] for k in rng.permutation(len(texts)))]
        kinds = {cell: "code" for cell, _ in codes} | {cell: "markdown" for cell, _ in texts}
        notebook = {"cell_type": {cell: kinds[cell] for cell, _ in shown}, "source": dict(shown)}
        path.write_text(json.dumps(notebook), encoding="utf-8")
        unplaced = [cell for cell, _ in shown if kinds[cell] == "markdown"]
        places = [{cell: known.get(cell, len(codes) // 2) for cell in unplaced} for known in (named, meant)]
        return [" ".join(true), *(_placed([cell for cell, _ in codes], place) for place in places)]


def _placed(codes: list[str], places: dict[str, int]) -> str:
    """Return the code cells in order, with each text before the code cell at its place."""
    order = sorted([*((k, 1, c) for k, c in enumerate(codes)), *((k, 0, c) for c, k in places.items())])
    return " ".join(cell for _, _, cell in order)
