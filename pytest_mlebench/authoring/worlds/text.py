"""Artificial languages. Their words have no known meaning: it must be learned from the data.

Also pages of artificial facts, with questions about them, and written tokens with their spoken forms.
"""

from __future__ import annotations

import csv
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import expit

from pytest_mlebench.authoring.synthetic import write_zipped_csv
from pytest_mlebench.authoring.worlds.labels import by_size

Parts = tuple[Sequence[str], Sequence[str], Sequence[str]]
SCRIPTS: dict[str, Parts] = {
    "latin": ([*"bdfgklmnprstvz", "br", "st", "tr", "pl"], "aeiou", ["", "n", "r", "k", "st"]),
    "cyrillic": ([*"бвгдклмнпрстз", "ст", "тр", "пл"], "аеиоу", ["", "н", "р", "к", "ст"]),
    "devanagari": ("कगजटडतदनपबमरलवस", "ािीुूेो", ["", "", "न", "र"]),
    "tamil": ("கசடதநபமயரலவளன", "ாிீுூேொ", ["", "", "ன்", "ர்"]),
}
"""For each script, the parts of its syllables: starts, vowels and ends."""


def lexicon(rng: np.random.Generator, count: int, taken: set[str] | None = None, script: str = "latin") -> list[str]:
    """Return ``count`` distinct artificial words that are not in ``taken``, and add them to it.

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
    """Draw ranks from 0 to ``words`` - 1 by Zipf's law: integers of shape (count,).

    >>> ranks = zipf_ranks(np.random.default_rng(0), 3, 1000)
    >>> np.bincount(ranks).tolist()  # proportional to log 2, log 3/2 and log 4/3
    [473, 309, 218]
    """
    return np.asarray(np.minimum(np.power(words + 1.0, rng.random(count)).astype(int), words) - 1)


def zipf(rng: np.random.Generator, words: Sequence[str], count: int) -> list[str]:
    """Draw ``count`` words by Zipf's law; the first words of the list are the most frequent."""
    return [words[rank] for rank in zipf_ranks(rng, len(words), count)]


def pick(rng: np.random.Generator, words: Sequence[str]) -> str:
    """Draw one of the words. This is much faster than ``rng.choice``, which creates an array each time."""
    return words[int(rng.integers(len(words)))]


class Language:
    """An artificial language whose words move a text up or down on hidden scales.

    Each scale has words that raise it and words that lower it (cues). A turner (like "not") before a cue reverses it.
    Other words have no meaning.
    """

    known = 12
    """The number of frequent words on each side of a scale."""

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
        """Return random texts. ``lengths``, of shape (texts,), are the numbers of words.

        A share ``density`` of the words are cues, equally for all scales; a share ``turned`` of the cues is reversed.
        ``leaning``, of shape (texts, scales), is each text's preference for raising (> 0) or lowering words; it is
        random by default. ``marks`` adds capitals, commas and full stops.

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
        """Return the texts' true values on each scale, and those that a naive reader sees: shape (texts, scales).

        The naive reader knows only the frequent words, and no turners.
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
    """Join words to a text. Each sentence begins with a capital, and the text ends with a full stop."""
    text = ". ".join(s[:1].upper() + s[1:] for s in " ".join(words).rstrip(".,").split(". "))
    return text + "."


@dataclass(frozen=True)
class Statement:
    """A sentence that states the value of a subject's relation."""

    words: list[str]
    subject: str
    relation: int
    value: slice
    """The slice of ``words`` that is the value."""
    frequent: bool
    """Whether the statement has the most frequent wording of its relation."""


class Facts:
    """An artificial language for facts. Each relation has several wordings, and words to ask for it."""

    def __init__(self, rng: np.random.Generator, script: str = "latin", relations: int = 10) -> None:
        taken: set[str] = set()
        self._fillers = lexicon(rng, 300, taken, script)
        self._names = lexicon(rng, 400, taken, script)
        self._wordings = [[lexicon(rng, k + 1, taken, script) for k in range(3)] for _ in range(relations)]
        self._asking = [lexicon(rng, 3, taken, script) for _ in range(relations)]
        self._numeric = rng.random(relations) < 0.4
        self._question = lexicon(rng, 3, taken, script)
        self._relations = relations

    def page(self, rng: np.random.Generator, subjects: int = 3) -> list[list[Statement]]:
        """Return paragraphs of statements, one paragraph per subject. Not every subject has every relation.

        >>> rng = np.random.default_rng(0)
        >>> page = Facts(rng).page(rng)
        >>> len(page), {statement.subject for statement in page[0]} == {page[0][0].subject}
        (3, True)
        """
        names = rng.choice(len(self._names), (subjects, 2), replace=False)
        page = []
        for first, last in names:
            subject = f"{self._names[first]} {self._names[last]}"
            chosen = rng.choice(self._relations, rng.integers(2, 6), replace=False)
            page.append([self._statement(rng, subject, int(relation)) for relation in chosen])
        return page

    def _statement(self, rng: np.random.Generator, subject: str, relation: int) -> Statement:
        wording = int(np.searchsorted([0.6, 0.85], rng.random()))
        if self._numeric[relation]:
            value = [str(rng.integers(2, 2000)), *([pick(rng, self._fillers[-5:])] if rng.random() < 0.5 else [])]
        else:
            value = [pick(rng, self._names) for _ in range(rng.integers(1, 4))]
        before = [
            *subject.split(),
            *zipf(rng, self._fillers, int(rng.integers(0, 4))),
            *self._wordings[relation][wording],
        ]
        words = [*before, *value, *zipf(rng, self._fillers, int(rng.integers(0, 5)))]
        position = slice(len(before), len(before) + len(value))
        return Statement(words, subject, relation, position, wording == 0)

    def question(self, rng: np.random.Generator, subject: str, relation: int) -> str:
        """Return a question for the value of a subject's relation."""
        return f"{pick(rng, self._question)} {pick(rng, self._asking[relation])} {subject}"

    def missing(self, rng: np.random.Generator, paragraph: list[Statement]) -> int:
        """Draw a relation that the paragraph does not state."""
        stated = {statement.relation for statement in paragraph}
        return int(rng.choice([relation for relation in range(self._relations) if relation not in stated]))


def obvious(page: list[list[Statement]], relation: int) -> Statement | None:
    """Return the first statement, about any subject, with the relation's most frequent wording, if any."""
    statements = (statement for paragraph in page for statement in paragraph)
    return next((s for s in statements if s.relation == relation and s.frequent), None)


Prepare = Callable[[Path, Path, Path], None]
Token = tuple[str, str, str, str]
"""Class, written form, spoken form, and the spoken form that a reader without context chooses."""

_CARELESS = 0.04
"""The share of tokens, among those whose forms differ, that annotators left in their written form."""


class Speech:
    """Spoken forms of an artificial language. If ``cases`` > 1, the word before a number determines its ending."""

    def __init__(self, rng: np.random.Generator, script: str, cases: int) -> None:
        taken: set[str] = set()
        self.words = lexicon(rng, 600, taken, script)
        self.ones, self.tens = lexicon(rng, 20, taken, script), lexicon(rng, 10, taken, script)
        self.hundred, self.thousand, self.point = lexicon(rng, 3, taken, script)
        self.endings = ["", *lexicon(rng, cases - 1, taken, script)]
        self.before_number = [lexicon(rng, 6, taken, script) for _ in range(cases)]
        self.before_year = lexicon(rng, 4, taken, script)
        self.letters = [start for start in SCRIPTS[script][0] if len(start) == 1]
        self.units = {a + b: lexicon(rng, 1, taken, script)[0] for a, b in rng.choice(self.letters, (12, 2))}
        self.short = {word[:2].title(): word for word in lexicon(rng, 30, taken, script)}
        self.ordinal = lexicon(rng, 1, taken, script)[0]

    def number(self, n: int) -> str:
        """Return the words for a number from 0 to 999,999."""
        if n >= 1000:
            rest = f" {self.number(n % 1000)}" if n % 1000 else ""
            return f"{self.number(n // 1000)} {self.thousand}{rest}"
        parts = [f"{self.ones[n // 100]} {self.hundred}"] if n >= 100 else []
        if n % 100 >= 20:
            parts.append(self.tens[n % 100 // 10])
            n = n % 10 + 100 * (n % 10 == 0)
        if n % 100 or not parts:
            parts.append(self.ones[n % 100])
        return " ".join(parts)

    def year(self, n: int) -> str:
        return f"{self.number(n // 100)} {self.number(n % 100) if n % 100 else self.hundred}"

    def sentence(self, rng: np.random.Generator) -> list[Token]:
        tokens: list[Token] = []
        for word in zipf(rng, self.words, int(rng.integers(3, 10))):
            plain = word.title() if not tokens else word
            tokens.append(("PLAIN", plain, plain, plain))
            if rng.random() < 0.4:
                tokens += self._special(rng)
            if rng.random() < 0.06:
                tokens.append(("PUNCT", ",", ",", ","))
        return [*tokens, ("PUNCT", ".", ".", ".")]

    def _special(self, rng: np.random.Generator) -> list[Token]:
        kind, case = rng.random(), int(rng.integers(len(self.endings)))
        n = int(10 ** rng.uniform(0, 4.3))
        if kind < 0.6:  # a number, whose kind depends on the word before it
            governor = pick(rng, self.before_number[case])
            written, read, name = f"{n:,}" if n >= 10000 else str(n), self.number(n), "CARDINAL"
            simple = read if n < 1000 else written
            if kind < 0.15:
                governor, n = pick(rng, self.before_year), int(rng.integers(1400, 2030))
                written, read, name = str(n), self.year(n), "DATE"
                simple = self.number(n)
            elif kind < 0.25:
                unit = pick(rng, list(self.units))
                written, read, name = f"{written} {unit}", f"{read} {self.units[unit]}", "MEASURE"
                simple = f"{simple} {self.units[unit]}"
            elif kind < 0.33:
                written, read, name = f"{n % 100}.", f"{self.number(n % 100)} {self.ordinal}", "ORDINAL"
                simple = self.number(n % 100)
            elif kind < 0.4:
                digits = int(rng.integers(10, 100))
                read, name = f"{read} {self.point} {self.number(digits // 10)} {self.number(digits % 10)}", "DECIMAL"
                written = f"{n}.{digits}"
                simple = written
            if self.endings[case] and kind >= 0.15:
                read = f"{read}{self.endings[case]}"
            governing = ("PLAIN", governor, governor, governor)
            return [governing, (name, written, read, simple)]
        if kind < 0.8:
            letters = "".join(rng.choice(self.letters, 3)).upper()
            read = " ".join(letters.lower())
            return [("LETTERS", letters, read, read)]
        short = pick(rng, list(self.short))
        return [("PLAIN", short, self.short[short], self.short[short])]


def make_spoken(
    raw: Path, rng: np.random.Generator, size: str, prepare: Prepare, *, language: str, script: str, cases: int
) -> dict[str, pd.DataFrame]:
    """Write the raw data of a text normalization challenge; returns predictions with the ids that ``prepare`` creates.

    ``prepare`` is the competition's function, ``script`` a key of ``SCRIPTS``, and ``cases`` that of ``Speech``.
    """
    speech = Speech(rng, script, cases)
    columns = ["class", "before", "ceiling", "simple"]
    sentences = [speech.sentence(rng) for _ in range(by_size(size, 120, 2500, 8000))]
    numbers = np.cumsum(1 + (rng.random(len(sentences)) < 0.1))  # numbers may be skipped
    table = pd.DataFrame([token for sentence in sentences for token in sentence], columns=columns)
    lengths = [len(sentence) for sentence in sentences]
    table.insert(0, "sentence_id", np.repeat(numbers, lengths))
    table.insert(1, "token_id", np.concatenate([np.arange(length) for length in lengths]))
    careless = (table["before"] != table["ceiling"]) & (rng.random(len(table)) < _CARELESS)
    table["after"] = table["ceiling"].mask(careless, table["before"])
    test = table.loc[table["sentence_id"] <= numbers[2], ["sentence_id", "token_id", "before"]]
    sample = pd.DataFrame({"id": [f"{s}_{t}" for s, t, _ in test.itertuples(index=False)], "after": test["before"]})
    _write_train(raw, table, "after", language)
    for suffix in ("", "_2"):
        _write(raw / f"{language}_test{suffix}.csv.zip", test)
        _write(raw / f"{language}_sample_submission{suffix}.csv.zip", sample)
    return {name: _renumbered(table, name, prepare, language) for name in ("simple", "ceiling")}


def _renumbered(table: pd.DataFrame, column: str, prepare: Prepare, language: str) -> pd.DataFrame:
    """Return predictions for the held-out tokens: the answers of ``prepare`` if ``column`` were the truth."""
    with tempfile.TemporaryDirectory() as name:
        raw, public, private = (Path(name, part) for part in ("raw", "public", "private"))
        for folder in (raw, public, private):
            folder.mkdir()
        _write_train(raw, table, column, language)
        prepare(raw, public, private)
        return pd.read_csv(private / "answers.csv", dtype=str, keep_default_na=False).set_index("id")


def _write_train(raw: Path, table: pd.DataFrame, column: str, language: str) -> None:
    train = table[["sentence_id", "token_id", "class", "before"]].assign(after=table[column])
    _write(raw / f"{language}_train.csv.zip", train)


def _write(path: Path, table: pd.DataFrame) -> None:
    write_zipped_csv(path, table, path.name.removesuffix(".zip"), quoting=csv.QUOTE_NONNUMERIC)
