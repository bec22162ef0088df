"""Written tokens and how they are read aloud, in a made-up language with its own numbers, units and abbreviations."""

from __future__ import annotations

import csv
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.synthetic import write_zipped_csv
from pytest_mlebench.authoring.worlds.labels import by_size
from pytest_mlebench.authoring.worlds.text import SCRIPTS, lexicon, pick, zipf

Prepare = Callable[[Path, Path, Path], None]
Token = tuple[str, str, str, str]
"""Class, how it is written, how it is read, and what somebody reads who knows single tokens alone."""

_CARELESS = 0.04
"""The share of the tokens other than words that were left as they are written."""


class Speech:
    """How things are read. Where ``cases`` is above 1, the word before a number decides on its ending."""

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
        """The words for a number from 0 to 999,999."""
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
        if kind < 0.6:  # a number whose kind the word before it tells
            governor = pick(rng, self.before_number[case])
            written, read, name = f"{n:,}" if n >= 10000 else str(n), self.number(n), "CARDINAL"
            simple = read if n < 20 else written
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
    """Write the raw data of a text normalization challenge; its predictions have the ids that ``prepare`` gives."""
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
    """Predictions for the held-out tokens: what ``prepare`` takes for the answers if they were the truth."""
    with tempfile.TemporaryDirectory() as name:
        raw, public, private = (Path(name, part) for part in ("raw", "public", "private"))
        for folder in (raw, public, private):
            folder.mkdir()
        _write_train(raw, table, column, language)
        prepare(raw, public, private)
        return pd.read_csv(private / "answers.csv", dtype=str, keep_default_na=False).set_index("id")


def _write_train(raw: Path, table: pd.DataFrame, column: str, language: str) -> None:
    shown = table[["sentence_id", "token_id", "class", "before"]].assign(after=table[column])
    _write(raw / f"{language}_train.csv.zip", shown)


def _write(path: Path, table: pd.DataFrame) -> None:
    write_zipped_csv(path, table, path.name.removesuffix(".zip"), quoting=csv.QUOTE_NONNUMERIC)
