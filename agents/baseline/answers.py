"""Predicts texts: known answers, parts of the given text, and lists of labels."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import pandas as pd
from sklearn.decomposition import PCA
from sklearn.feature_extraction import FeatureHasher
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import Ridge, RidgeCV, SGDClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tables import SEED, to_numbers
from task import CannotSolve

MAX_ROWS, MAX_LABELS, MAX_WORDS = 20_000, 500, 300_000
MANY_NUMBERS = 30
"""A row with at least this many numeric columns describes a picture or a sound."""
Model = Callable[[pd.DataFrame], list[str]]

log = logging.getLogger("baseline")


def text_answers(train: pd.DataFrame, test: pd.DataFrame, features: list[str], answer: str, count: int) -> list[str]:
    """Return the answers to the test rows, by the method that is best for held-out training rows.

    All columns are text. ``count`` is the number of labels in each answer, most likely first; 0 if it is not fixed.
    Raises CannotSolve if no method beats the most frequent answer.
    """
    rows = train.sample(min(len(train), MAX_ROWS), random_state=SEED)
    columns = [name for name in features if rows[name].nunique() > 1]
    cut = max(1, len(rows) // 4)
    held, rest = rows[:cut], rows[cut:]
    usual = rest[answer].value_counts().index[: max(1, count)]
    best = (_likeness([" ".join(usual)] * len(held), held[answer], count), "", "")
    for name, column, fit in _ways(rest, columns, answer, count):
        score = _likeness(fit(rest, column, columns, answer)(held), held[answer], count)
        log.info("%s, %s: %.4f of the words are right in held-out rows", name, column, score)
        best = max(best, (score, name, column))
    if not best[1]:
        raise CannotSolve(f"no column predicts the texts of {answer!r}")
    fit = next(fit for name, column, fit in _ways(rest, columns, answer, count) if (name, column) == best[1:])
    return fit(train, best[2], columns, answer)(test)


def _ways(
    rows: pd.DataFrame, columns: list[str], answer: str, count: int
) -> Iterator[tuple[str, str, Callable[..., Model]]]:
    answers = rows[answer]
    words = answers.str.split()
    counts = Counter(word for own in words for word in set(own))
    # Labels are all numbers or all words, without duplicates.
    distinct = words.map(lambda own: len(set(own)) == len(own)).mean() > 0.9
    alike = len({word.isdecimal() for word in counts}) == 1
    few = count > 0 or (distinct and alike and len(counts) < 0.2 * sum(counts.values()))
    measured = [name for name in columns if _is_measured(rows[name])]
    if len(measured) >= MANY_NUMBERS:
        columns = [name for name in columns if name not in measured]
        if few:
            yield "labels of the numbers", measured[0], partial(_labels, count=count, numbers=measured)
            return
        yield "answers of the nearest numbers", measured[0], partial(_nearest, numbers=measured)
    for column in columns:
        if count == 0:
            yield "remembered answers", column, _remembered
        if np.mean([own in text for own, text in zip(answers, rows[column], strict=True)]) > 0.8:
            yield "a part of the text", column, _part
        elif few and rows[column].str.split().str.len().mean() > 3:
            yield "labels of the text", column, partial(_labels, count=count)


def _is_measured(column: pd.Series) -> bool:
    """Return whether a text column contains only numbers and missing values."""
    values = column[column != ""]
    return len(values) > 0 and bool(to_numbers(values).notna().all())


def _numbers(table: pd.DataFrame, names: list[str]) -> pd.DataFrame:
    return table[names].apply(to_numbers)


def _likeness(found: list[str], true: pd.Series, count: int) -> float:
    """Return the mean Jaccard index of the words; for lists of fixed length, the mean recall of the true words."""
    pairs = [(_parts(a), _parts(b)) for a, b in zip(found, true, strict=True)]
    return float(np.mean([len(a & b) / max(1, len(b if count else a | b)) if a or b else 1.0 for a, b in pairs]))


def _parts(text: str) -> set[str]:
    """Return the words of a text; for a single long word, all substrings of four letters."""
    words = text.split()
    return set(words) if len(words) != 1 or len(text) < 20 else {text[k : k + 4] for k in range(len(text) - 3)}


def _nearest(rows: pd.DataFrame, column: str, columns: list[str], answer: str, *, numbers: list[str]) -> Model:
    """Predict the answer of the training row with the nearest numbers."""
    model = make_pipeline(SimpleImputer(), StandardScaler(), PCA(0.95), KNeighborsClassifier(1))
    model.fit(_numbers(rows, numbers), np.arange(len(rows)))
    answers = rows[answer].to_numpy(object)
    return lambda table: list(answers[model.predict(_numbers(table, numbers))])


def _remembered(rows: pd.DataFrame, column: str, columns: list[str], answer: str) -> Model:
    """Predict the most frequent answer to the same text; an unknown text is its own answer."""
    known = rows.groupby(column)[answer].agg(lambda own: own.mode().iloc[0]).to_dict()
    return lambda table: [str(known.get(text, text)) for text in table[column]]


def _labels(
    rows: pd.DataFrame, column: str, columns: list[str], answer: str, *, count: int, numbers: list[str] | None = None
) -> Model:
    """Predict frequent answer words for each text, or row of numbers, with a linear model per word."""
    lists = rows[answer].str.split()
    names = [name for name, _ in Counter(word for own in lists for word in own).most_common(MAX_LABELS)]
    truth = np.array([[name in own for name in names] for own in lists], dtype=float)
    if numbers:
        vectors = make_pipeline(SimpleImputer(), StandardScaler())
        model = RidgeCV(np.logspace(0, 4, 9))
    else:
        vectors = TfidfVectorizer(sublinear_tf=True, max_features=20_000)
        model = Ridge(alpha=0.5, solver="sparse_cg")

    def inputs(table: pd.DataFrame) -> pd.Series | pd.DataFrame:
        return _numbers(table, numbers) if numbers else table[column]

    model.fit(vectors.fit_transform(inputs(rows)), truth)
    usual = max(1, round(float(truth.sum(axis=1).mean())))

    def predict(table: pd.DataFrame) -> list[str]:
        values = model.predict(vectors.transform(inputs(table)))
        ranks = np.argsort(-values, axis=1)[:, : count or usual + 3]
        return [
            " ".join(
                names[k]
                for place, k in enumerate(own)
                if count or place == 0 or row[k] > (0.25 if place < usual else 0.4)
            )
            for row, own in zip(values, ranks, strict=True)
        ]

    return predict


def _part(rows: pd.DataFrame, column: str, columns: list[str], answer: str) -> Model:
    """Predict the run of words in the text that most likely belong to an answer."""
    short = [name for name in columns if name != column and rows[name].nunique() <= 20]
    other = [name for name in columns if name != column and name not in short]
    hasher = FeatureHasher(1 << 18, input_type="string")
    inputs, truth = [], []
    for row in rows.to_dict("records"):
        start = row[column].find(row[answer])
        if start < 0 or not row[answer].strip():
            continue
        first = len(row[column][:start].split())
        last = first + len(row[answer].split())
        words = list(_words(row, column, short, other))
        inputs += words
        truth += [first <= k < last for k in range(len(words))]
        if len(inputs) > MAX_WORDS:
            break
    if len(set(truth)) < 2:
        return lambda table: list(table[column])
    model = SGDClassifier(loss="log_loss", alpha=1e-5, max_iter=20, random_state=SEED)
    model.fit(hasher.transform(inputs), truth)
    level = float(np.mean(truth))

    def predict(table: pd.DataFrame) -> list[str]:
        found = []
        for row in table.to_dict("records"):
            own = list(_words(row, column, short, other))
            shares = model.predict_proba(hasher.transform(own))[:, 1] if own else np.zeros(0)
            first, last = _best_run(shares - max(level, 0.3))
            found.append(" ".join(row[column].split()[first:last]))
        return found

    return predict


def _words(row: dict[str, str], column: str, short: list[str], other: list[str]) -> Iterator[list[str]]:
    """Yield the features of each word of a text: the word, its neighbours, and the values of other columns."""
    words = row[column].split()
    kinds = [f"{name}={row[name]}" for name in short]
    asked = {word.lower() for name in other for word in row[name].split()}
    padded = ["<", "<", *(word.lower() for word in words), ">", ">"]
    for k in range(len(words)):
        near = padded[k : k + 5]
        seen = [f"{place}:{word}" for place, word in enumerate(near)]
        seen += [f"asked {place}" for place, word in enumerate(near) if word in asked]
        seen += [f"asked {place}:{near[2]}" for place in (0, 1, 3, 4) if near[place] in asked]
        yield [*seen, *kinds, *(f"{kind} {own}" for kind in kinds for own in seen)]


def _best_run(values: np.ndarray) -> tuple[int, int]:
    """Return the run with the largest sum, of at least one word.

    >>> _best_run(np.array([-1, 2, -1, 3, -2]))
    (1, 4)
    """
    best, first, total, run = -np.inf, 0, 0.0, (0, min(1, len(values)))
    for k, value in enumerate(values):
        if total <= 0:
            first, total = k, 0.0
        total += float(value)
        if total > best:
            best, run = total, (first, k + 1)
    return run
