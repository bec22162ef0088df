"""Solvers for text competitions: cell order, question answering and phrase similarity."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise, zip_longest
from pathlib import Path

import pandas as pd
from sklearn.feature_extraction import DictVectorizer
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MaxAbsScaler

# Order: AI4Code


class Notebook:
    """The cells of a notebook by id: code in order, and texts whose position is to be predicted."""

    def __init__(self, path: Path) -> None:
        cells = json.loads(path.read_text(encoding="utf-8"))
        kinds = cells["cell_type"]
        self.codes = {cell: text for cell, text in cells["source"].items() if kinds[cell] == "code"}
        self.texts = {cell: text for cell, text in cells["source"].items() if kinds[cell] != "code"}

    def places(self, order: list[str]) -> list[int]:
        """Number of code cells before each text."""
        return [sum(cell in self.codes for cell in order[: order.index(text)]) for text in self.texts]

    def choices(self, usual: Pipeline) -> Iterator[list[dict[str, float]]]:
        """For each text, the features of each possible position, such as words shared with the code after it."""
        said = [set(re.findall(r"\w+", code)) for code in self.codes.values()]
        for text in self.texts.values():
            heard, near, own = re.findall(r"\w+", text), usual.predict([text])[0], []
            for k, following in enumerate([*said, set[str]()]):
                features = {"away": abs(k / max(len(said), 1) - near), "last": float(k == len(said))}
                for before, word in pairwise(["", *heard]):
                    if word in following:
                        new = "again" if k and word in said[k - 1] else "new"
                        features |= {f"{new} after {before}": 1.0, new: features.get(new, 0) + 1}
                own.append(features)
            yield own


def order(public: Path) -> pd.DataFrame:
    """Put each text before the code cell that fits it best, as learned from notebooks of known order."""
    sample, orders = (pd.read_csv(public / f"{name}.csv") for name in ("sample_submission", "train_orders"))
    x: list[dict[str, float]] = []
    y: list[bool] = []
    known = []
    for id, cells in orders.to_numpy():
        notebook = Notebook(public / "train" / f"{id}.json")
        if {*notebook.codes, *notebook.texts} == set(cells.split()):
            known.append((notebook, notebook.places(cells.split())))
    if not known:
        return sample
    texts = [text for notebook, _ in known for text in notebook.texts.values()]
    shares = [place / max(len(notebook.codes), 1) for notebook, places in known for place in places]
    usual = make_pipeline(TfidfVectorizer(min_df=2), Ridge(2)).fit(texts, shares)
    for notebook, places in known:
        for own, place in zip(notebook.choices(usual), places, strict=True):
            x += own
            y += [k == place for k in range(len(own))]
    model = make_pipeline(DictVectorizer(), MaxAbsScaler(), LogisticRegression(C=3, max_iter=300)).fit(x, y)
    found = []
    for id in sample["id"]:
        notebook = Notebook(public / "test" / f"{id}.json")
        cells = [(k, 1, code) for k, code in enumerate(notebook.codes)]
        for text, own in zip(notebook.texts, notebook.choices(usual), strict=True):
            cells.append((int(model.predict_proba(own)[:, 1].argmax()), 0, text))
        found.append(" ".join(cell for *_, cell in sorted(cells)))
    return sample.assign(cell_order=found)


# Questions about articles: chaii-hindi-and-tamil-question-answering


def answers(public: Path) -> pd.DataFrame:
    """Answer with the likeliest words of the sentences that share the most words with the question."""
    train, test = (pd.read_csv(public / f"{part}.csv") for part in ("train", "test"))
    inside: Counter[str] = Counter()
    seen: Counter[str] = Counter()
    x, y = [], []
    for context, question, answer, start in train[["context", "question", "answer_text", "answer_start"]].to_numpy():
        length = len(answer.split())
        for place, words, k, about in _starts(context, question):
            x.append(about)
            y.append(place == start)
            if y[-1]:
                inside.update(map(_plain, words[k + 1 : k + length]))
                seen.update(map(_plain, words[k + 1 : k + length + 1]))
    if not any(y):
        return test[["id"]].assign(PredictionString="")
    vectors = DictVectorizer()
    model = LogisticRegression(C=10, max_iter=300).fit(vectors.fit_transform(x), y)
    found = []
    for context, question in test[["context", "question"]].to_numpy():
        starts = [*_starts(context, question)]
        likely = model.decision_function(vectors.transform([about for *_, about in starts])).argmax()
        _, words, k, _ = starts[likely]
        end = k + 1
        while end < len(words) and 2 * inside[_plain(words[end])] + 0.8 > seen[_plain(words[end])] + 1:
            end += 1
        found.append(" ".join(words[k:end]))
    return test[["id"]].assign(PredictionString=found)


def _starts(context: str, question: str) -> Iterator[tuple[int, list[str], int, dict[str, float]]]:
    """Possible first words of an answer: offset in the text, words of the sentence, index of the word, and features."""
    asked = set(re.findall(r"[^\s?]+", question))
    sentences = [(match.start(), match.group()) for match in re.finditer(r"[^।.\n]+", context)]
    shared = [len(asked & set(sentence.split())) for _, sentence in sentences]
    for (start, sentence), own in zip(sentences, shared, strict=True):
        words = sentence.split()
        for k, word in enumerate(re.finditer(r"\S+", sentence) if own == max(shared) else []):
            two, one = ["", "", *words][k : k + 2]
            kind, is_asked = _plain(words[k]), float(words[k] in asked)
            about = {f"{q} {near}": 1.0 for q in asked for near in (one, f"{two} {one}", *["0"] * (kind == "0"))}
            yield start + word.start(), words, k, about | {f"after {one}": 1.0, f"is {kind}": 1.0, "asked": is_asked}


def _plain(word: str) -> str:
    return "0" if word.isdigit() else word


# Pairs of phrases: us-patent-phrase-to-phrase-matching


def likenesses(public: Path) -> pd.DataFrame:
    """Learn the similarity of word pairs from phrase pairs, both in general and by patent class."""
    train, test = (pd.read_csv(public / f"{part}.csv") for part in ("train", "test"))
    model = make_pipeline(DictVectorizer(), Ridge(3)).fit(_phrases(train), train["score"])
    return test[["id"]].assign(score=model.predict(_phrases(test)))


def _phrases(table: pd.DataFrame) -> list[dict[str, float]]:
    found = []
    for anchor, target, context in table[["anchor", "target", "context"]].to_numpy():
        one, two = anchor.split(), target.split()
        pairs = [tuple(sorted(words)) for words in zip_longest(one, two, fillvalue="")]
        same = sum(a == b for a, b in pairs)
        about = {f"{same} same": 1.0, "shared": float(len({*one} & {*two}))}
        about |= {f"{context[:length]} {same}": 1.0 for length in (1, 3)}
        for place, (a, b) in enumerate(pairs):
            if a != b:
                about |= {a: 1.0, b: 1.0, f"{a} {b}": 1.0} | {f"{context[:length]} {a} {b}": 1.0 for length in (1, 3)}
            else:
                about[f"same {place}"] = 1.0
        found.append(about)
    return found
