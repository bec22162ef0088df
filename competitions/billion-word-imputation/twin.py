import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.archives import write_zip
from pytest_mlebench.authoring.worlds.labels import by_size
from pytest_mlebench.authoring.worlds.text import lexicon, zipf_ranks

from .prepare import HEADER, prepare


def make(
    raw: Path, rng: np.random.Generator, size: str, prepare: Callable[[Path, Path, Path], None] = prepare
) -> dict[str, pd.DataFrame]:
    n = by_size(size, 10_000, 55_000, 150_000)
    world = World(rng)
    lines = world.sentences(rng, n)
    write_zip(raw / "train_v2.txt.zip", {"train_v2.txt": "\n".join(lines) + "\n"})
    test = "".join(f'{k},"{lines[k]}"\n' for k in range(1, 6))
    write_zip(raw / "test_v2.txt.zip", {"test_v2.txt": HEADER + test})
    with tempfile.TemporaryDirectory() as name:  # prepare.py decides which words are missing
        public, private = Path(name, "public"), Path(name, "private")
        public.mkdir()
        private.mkdir()
        prepare(raw, public, private)
        gaps = pd.read_csv(private / "sample_submission.csv", index_col="id")
    return {
        name: pd.DataFrame({"sentence": [fill(text) for text in gaps["sentence"]]}, gaps.index)
        for name, fill in (("simple", world.fill_plain), ("ceiling", world.fill))
    }


class World:
    """A grammar of seven kinds of words in a fixed order, some of them optional.

    A frame word (article, preposition) depends on the noun's class, a verb on its subject's class.
    """

    def __init__(self, rng: np.random.Generator) -> None:
        taken: set[str] = set()
        self.nouns = [lexicon(rng, 60, taken) for _ in range(4)]
        self.verbs = [lexicon(rng, 5, taken) for _ in range(4)]
        self.articles = lexicon(rng, 4, taken)
        self.links = lexicon(rng, 3, taken)
        self.adjectives = lexicon(rng, 100, taken)
        self.kind = {word: ("noun", k) for k, words in enumerate(self.nouns) for word in words}
        self.kind |= {word: ("verb", k) for k, words in enumerate(self.verbs) for word in words}
        self.kind |= {word: ("article", k) for k, word in enumerate(self.articles)}
        self.kind |= {word: ("link", k) for k, word in enumerate(self.links)}
        self.kind |= dict.fromkeys(self.adjectives, ("adjective", 0))

    def sentences(self, rng: np.random.Generator, count: int) -> list[str]:
        classes = rng.integers(4, size=(count, 3))
        nouns, adjectives = (zipf_ranks(rng, k, count * 3).reshape(-1, 3) for k in (60, 100))
        verbs, links = zipf_ranks(rng, 5, count), zipf_ranks(rng, 3, count)
        adorned, longer = rng.random((count, 3)) < 0.3, rng.random(count) < 0.5
        found = []
        for i in range(count):
            groups = []
            for k in range(2 + longer[i]):
                c = classes[i, k]
                adjective = [self.adjectives[adjectives[i, k]]] if adorned[i, k] else []
                groups.append([self.articles[c], *adjective, self.nouns[c][nouns[i, k]]])
            words = [*groups[0], self.verbs[classes[i, 0]][verbs[i]], *groups[1]]
            for group in groups[2:]:
                words += [self.links[links[i]], *group]
            found.append(" ".join([words[0].title(), *words[1:], "."]))
        return found

    def fill_plain(self, sentence: str) -> str:
        """Insert a missing article, as a reader would who only knows which article each noun has."""
        words = sentence.split()
        for k, word in enumerate(words[1:], 1):
            kind, before = self.kind.get(word, ("", 0)), self.kind.get(words[k - 1].lower(), ("", 0))[0]
            if kind[0] == "noun" and before in ("verb", "link"):
                return " ".join([*words[:k], self.articles[kind[1]], *words[k:]])
        return sentence

    def fill(self, sentence: str) -> str:
        """Insert the word that the grammar requires, or the most frequent one if several are possible."""
        words = sentence.split()
        kinds = [self.kind.get(word.lower(), ("end", 0)) for word in words]
        subject = kinds[0][1]
        for k in range(1, len(words)):
            (before, c), (after, _) = kinds[k - 1], kinds[k]
            missing = None
            if before in ("verb", "link") and after in ("noun", "adjective"):
                nouns = [c for kind, c in kinds[k:] if kind == "noun"]
                missing = self.articles[nouns[0] if nouns else 0]
            elif before in ("article", "adjective") and after in ("verb", "link", "end"):
                missing = self.nouns[c if before == "article" else kinds[k - 2][1]][0]
            elif before == "noun" and after in ("article", "adjective"):
                missing = self.links[0] if any(kind == "verb" for kind, _ in kinds[:k]) else self.verbs[subject][0]
            if missing is not None:
                return " ".join([*words[:k], missing, *words[k:]])
        return sentence
