"""Made-up language: words that nobody knows, so that their meaning must be learned from the data."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import expit

Parts = tuple[Sequence[str], Sequence[str], Sequence[str]]
SCRIPTS: dict[str, Parts] = {
    "latin": ([*"bdfgklmnprstvz", "br", "st", "tr", "pl"], "aeiou", ["", "n", "r", "k", "st"]),
    "cyrillic": ([*"бвгдклмнпрстз", "ст", "тр", "пл"], "аеиоу", ["", "н", "р", "к", "ст"]),
    "devanagari": ("कगजटडतदनपबमरलवस", "ािीुूेो", ["", "", "न", "र"]),
    "tamil": ("கசடதநபமயரலவளன", "ாிீுூேொ", ["", "", "ன்", "ர்"]),
}
"""For each script, how its syllables start, what stands in their middle, and how they end."""


def lexicon(rng: np.random.Generator, count: int, taken: set[str] | None = None, script: str = "latin") -> list[str]:
    """Distinct made-up words that are not in ``taken``, and adds them to it.

    >>> len(lexicon(np.random.default_rng(0), 5, script="tamil"))
    5
    """
    taken = set() if taken is None else taken
    starts, vowels, ends = (list(part) for part in SCRIPTS[script])
    found: list[str] = []
    while len(found) < count:
        for syllables in rng.integers(2, 4, count - len(found)):
            drawn = zip(*(rng.choice(part, syllables) for part in (starts, vowels, ends)), strict=True)
            if (word := "".join(letter for parts in drawn for letter in parts)) not in taken:
                taken.add(word)
                found.append(word)
    return found


def zipf_ranks(rng: np.random.Generator, words: int, count: int) -> np.ndarray:
    """Ranks from 0 to ``words`` - 1 drawn by Zipf's law: int, shape (count,).

    >>> ranks = zipf_ranks(np.random.default_rng(0), 3, 1000)
    >>> np.bincount(ranks).tolist()  # log 2, log 3/2 and log 4/3 to each other
    [473, 309, 218]
    """
    return np.asarray(np.minimum(np.power(words + 1.0, rng.random(count)).astype(int), words) - 1)


def zipf(rng: np.random.Generator, words: Sequence[str], count: int) -> list[str]:
    """Words drawn by Zipf's law; the first in the list are the most frequent."""
    return [words[rank] for rank in zipf_ranks(rng, len(words), count)]


def pick(rng: np.random.Generator, words: Sequence[str]) -> str:
    """One of the words. Much faster than ``rng.choice``, which makes an array of them each time."""
    return words[int(rng.integers(len(words)))]


class Language:
    """A made-up language whose words raise or lower a text on hidden scales.

    Each scale has words that raise it and words that lower it. A turning word (a made-up "not") before one reverses it.
    All other words mean nothing.
    """

    known = 12
    """So many words of each side of a scale are frequent."""

    def __init__(
        self, rng: np.random.Generator, *, scales: int = 1, words: int = 500, cues: int = 30, script: str = "latin"
    ) -> None:
        taken: set[str] = set()
        self.words = np.array(lexicon(rng, words, taken, script), dtype=object)
        self.turners = np.array(lexicon(rng, 2, taken, script), dtype=object)
        self._turners = set(self.turners)
        self.cues = np.array(lexicon(rng, scales * 2 * cues, taken, script), dtype=object).reshape(scales, 2, cues)
        weights = rng.uniform(0.5, 1.5, self.cues.shape) * np.array([[-1], [1]])
        self._meaning = {
            str(word): (scale, float(weights[scale, side, rank]), rank < self.known)
            for (scale, side, rank), word in np.ndenumerate(self.cues)
        }

    def write(
        self,
        rng: np.random.Generator,
        lengths: np.ndarray,
        leaning: np.ndarray | None = None,
        *,
        density: float = 0.35,
        turned: float = 0.25,
        marks: bool = True,
    ) -> list[str]:
        """Texts of these lengths in words, shape (texts,).

        A share ``density`` of the words matters, evenly for all scales, and a share ``turned`` of these is reversed.
        ``leaning``, shape (texts, scales), says which words a text prefers (default: drawn for each). ``marks`` adds
        capitals, commas and full stops.

        >>> rng = np.random.default_rng(0)
        >>> language = Language(rng, scales=2)
        >>> full, plain = language.read(language.write(rng, np.array([3, 5])))
        >>> full.shape, plain.shape
        ((2, 2), (2, 2))
        """
        count, (scales, _, cues) = len(lengths), self.cues.shape
        leaning = rng.normal(size=(count, scales)) if leaning is None else leaning
        rows = np.repeat(np.arange(count), lengths)
        words = self.words[zipf_ranks(rng, len(self.words), len(rows))]
        matters = np.flatnonzero(rng.random(len(rows)) < density)
        scale = rng.integers(scales, size=len(matters))
        rises = rng.random(len(matters)) < expit(2 * leaning[rows[matters], scale])
        turns = rng.random(len(matters)) < turned
        turner = self.turners[rng.integers(2, size=len(matters))] + " "
        cue = self.cues[scale, (rises ^ turns).astype(int), zipf_ranks(rng, cues, len(matters))]
        words[matters] = np.where(turns, turner, "") + cue
        if marks:
            words = words + rng.choice(np.array(["", ",", "."], dtype=object), len(rows), p=[0.86, 0.07, 0.07])
        parts = np.split(words, np.cumsum(lengths)[:-1])
        return [_sentences(list(part)) if marks else " ".join(part) for part in parts]

    def read(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Where texts stand on each scale, shape (texts, scales): really, and for a reader of little knowledge.

        That reader knows the frequent words alone, and no turning words.
        """
        full, plain = np.zeros((2, len(texts), len(self.cues)))
        for row, text in enumerate(texts):
            turned = 1
            for word in text.lower().split():
                word = word.strip('.,"')
                if found := self._meaning.get(word):
                    scale, weight, frequent = found
                    full[row, scale] += turned * weight
                    plain[row, scale] += weight * frequent
                turned = -1 if word in self._turners else 1
        return full, plain


def _sentences(words: Sequence[str]) -> str:
    """A text that begins each sentence with a capital and ends with a full stop."""
    text = ". ".join(s[:1].upper() + s[1:] for s in " ".join(words).rstrip(".,").split(". "))
    return text + "."
