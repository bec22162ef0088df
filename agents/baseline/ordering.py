"""Puts the shuffled parts of documents in order, if another kind of part is already in order."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from tables import SEED, Source

MAX_DOCUMENTS = 3_000
LEAST_ORDERED = 0.95

log = logging.getLogger("baseline")
Document = dict[str, dict[str, str]]


def orders(data: Path, sample: pd.DataFrame, tables: list[Source]) -> pd.DataFrame | None:
    """Return the sample with the parts of each document in order; None if it does not ask for that.

    It asks for that if each id is the name of a JSON file with dictionaries whose keys are the listed parts.
    """
    if sample.shape[1] != 2 or not sample.iloc[:, 1].str.contains(" ").any():
        return None
    id, answer = sample.columns
    files = {path.stem: path for path in data.rglob("*.json") if path.parent != data}
    table = next((t for t in tables if {id, answer} <= set(t.columns())), None)
    if table is None or not set(sample[id]) <= set(files):
        return None
    known = table.read()
    known = known[known[id].isin(files.keys())].head(MAX_DOCUMENTS)
    documents = [_read(files[name]) for name in known[id]]
    asked = [_read(files[name]) for name in sample[id]]
    if any(len(own) < 2 for own in (*documents, *asked)) or len(known) < 10:
        return None
    kinds, text = _roles(documents[0])
    true = [own.split() for own in known[answer]]
    given = _given_kind(documents, kinds, true)
    if given is None:
        return None
    log.info("%s %r is already in order", kinds, given)
    place = _learned(documents, true, kinds, text, given)
    return sample.assign(**{answer: [" ".join(place(own)) for own in asked]})


def _read(path: Path) -> Document:
    content: Any = json.loads(path.read_text(encoding="utf-8"))
    return {name: own for name, own in content.items() if isinstance(own, dict)} if isinstance(content, dict) else {}


def _roles(document: Document) -> tuple[str, str]:
    """Return the dictionaries with the fewest and the most different values: the kind and the text of each part."""
    ranked = sorted(document, key=lambda name: len(set(map(str, document[name].values()))))
    return ranked[0], ranked[-1]


def _given_kind(documents: list[Document], kinds: str, true: list[list[str]]) -> str | None:
    for kind in sorted(set(documents[0][kinds].values())):
        right = []
        for document, order in zip(documents[:200], true, strict=False):
            own = [part for part, value in document[kinds].items() if value == kind]
            right.append(own == [part for part in order if part in set(own)])
        if np.mean(right) > LEAST_ORDERED:
            return kind
    return None


def _learned(
    documents: list[Document], true: list[list[str]], kinds: str, text: str, given: str
) -> Callable[[Document], list[str]]:
    """Return a function that puts the parts of a document in order, with a model of where the shuffled ones belong."""
    from sklearn.ensemble import ExtraTreesRegressor
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import Ridge
    from sklearn.model_selection import cross_val_predict

    words = TfidfVectorizer(token_pattern=r"\w+", sublinear_tf=True, max_features=50_000)
    words.fit([str(value) for own in documents for value in own[text].values()])

    def measured(document: Document) -> tuple[list[str], list[str], np.ndarray]:
        """Return the ordered and the shuffled parts, and features of where each shuffled one belongs, from 0 to 1."""
        fixed = [part for part, kind in document[kinds].items() if kind == given]
        loose = [part for part, kind in document[kinds].items() if kind != given]
        if not fixed or not loose:
            return fixed, loose, np.zeros((len(loose), 6))
        one = words.transform([str(document[text][part]) for part in loose])
        alike = (one @ words.transform([str(document[text][part]) for part in fixed]).T).toarray()
        places = (np.arange(len(fixed)) + 0.5) / len(fixed)
        sharp = alike**2 + 1e-6
        means = [(own @ places) / own.sum(axis=1) for own in (alike + 1e-6, sharp)]
        size = [[len(str(document[text][part])), len(fixed)] for part in loose]
        return fixed, loose, np.column_stack([*means, places[alike.argmax(axis=1)], alike.max(axis=1), size])

    texts, rows, where = [], [], []
    for document, order in zip(documents, true, strict=True):
        fixed, loose, numbers = measured(document)
        if not fixed or not loose:
            continue
        before = np.cumsum([part in set(fixed) for part in order])
        rank = dict(zip(order, before / len(fixed), strict=True))
        texts += [str(document[text][part]) for part in loose]
        rows.append(numbers)
        where += [rank[part] for part in loose]
    general = Ridge(1.0, solver="sparse_cg")
    usual = cross_val_predict(general, words.transform(texts), where, cv=5)
    general.fit(words.transform(texts), where)
    trees = ExtraTreesRegressor(100, min_samples_leaf=5, random_state=SEED)
    trees.fit(np.column_stack([np.concatenate(rows), usual]), where)

    def place(document: Document) -> list[str]:
        fixed, loose, numbers = measured(document)
        at = {part: (k + 1) / len(fixed) - 0.5 / len(fixed) for k, part in enumerate(fixed)}
        if loose and fixed:
            seen = general.predict(words.transform([str(document[text][part]) for part in loose]))
            at |= dict(zip(loose, trees.predict(np.column_stack([numbers, seen])), strict=True))
        return sorted([*fixed, *loose], key=lambda part: at.get(part, 0.0))

    return place
