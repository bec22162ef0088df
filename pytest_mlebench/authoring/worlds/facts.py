"""Pages that state made-up facts, and questions that a statement of the page answers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pytest_mlebench.authoring.worlds.text import lexicon, pick, zipf


@dataclass(frozen=True)
class Statement:
    """A sentence that says of a subject what its value of a relation is."""

    words: list[str]
    subject: str
    relation: int
    value: slice
    """Which of the words are the value."""
    frequent: bool
    """It is worded as most statements of its relation are."""


class Facts:
    """A made-up language for facts: each relation has several wordings, and words that ask for it."""

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
        """Paragraphs of statements, each about one subject. Not every subject has every relation.

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
        place = slice(len(before), len(before) + len(value))
        return Statement(words, subject, relation, place, wording == 0)

    def question(self, rng: np.random.Generator, subject: str, relation: int) -> str:
        """Words that ask for the value of a subject's relation."""
        return f"{pick(rng, self._question)} {pick(rng, self._asking[relation])} {subject}"

    def missing(self, rng: np.random.Generator, paragraph: list[Statement]) -> int:
        """A relation that the paragraph does not state."""
        stated = {statement.relation for statement in paragraph}
        return int(rng.choice([relation for relation in range(self._relations) if relation not in stated]))


def obvious(page: list[list[Statement]], relation: int) -> Statement | None:
    """What a reader finds who knows the frequent wordings alone, and does not mind whom a statement is about."""
    statements = (statement for paragraph in page for statement in paragraph)
    return next((s for s in statements if s.relation == relation and s.frequent), None)
