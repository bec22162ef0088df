"""Answers from a recording: the same questions get the same answers, without a key, a network or a cost."""

from __future__ import annotations

import difflib
import json
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytest_mlebench.llm.flavours import Refusal
from pytest_mlebench.llm.ledger import read_bodies

VOLATILE = frozenset(
    {
        "stream",
        "stream_options",
        "user",
        "metadata",
        "store",
        "prompt_cache_key",
        "prompt_cache_retention",
        "safety_identifier",
        "client_metadata",
        "service_tier",
    }
)
"""Top-level fields that say nothing of the question: how the answer is sent, who asks, what is cached."""
_SHOWN = 160


class Recording:
    """What was asked and answered in an earlier run. To be used by one thread."""

    def __init__(self, run_dir: Path) -> None:
        self.run = run_dir.name
        self._answers: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
        self._asked: list[tuple[int, str, str]] = []
        self._next: dict[str, int] = defaultdict(int)
        for body in sorted(read_bodies(run_dir), key=lambda body: int(body.get("number") or 0)):
            if "response" not in body or not isinstance(path := body.get("path"), str):
                continue
            question = canonical(body.get("request"))
            self._answers[f"{path} {question}"].append(body)
            self._asked.append((int(body.get("number") or 0), path, question))

    def __len__(self) -> int:
        return len(self._asked)

    def find(self, path: str, request: Any) -> Mapping[str, Any]:
        """The recorded answer: of a repeated question the next one, and the last one ever after.

        Raises Refusal that shows the first difference to the nearest question that was recorded.
        """
        question = canonical(request)
        key = f"{path} {question}"
        answers = self._answers.get(key)
        if not answers:
            raise Refusal("invalid", self._miss(path, question))
        place = self._next[key]
        self._next[key] += 1
        return answers[min(place, len(answers) - 1)]

    def _miss(self, path: str, question: str) -> str:
        same = [(number, asked) for number, known, asked in self._asked if known == path]
        if not same:
            return f"the recording of run {self.run} has no call of {path}"
        number, nearest = max(same, key=lambda entry: _likeness(entry[1], question))
        return f"the recording of run {self.run} has no such call; nearest is its call {number}: " + first_difference(
            json.loads(nearest), json.loads(question)
        )


def canonical(request: Any) -> str:
    """A request without what does not matter: the order of its keys, and ``VOLATILE`` fields."""
    if isinstance(request, Mapping):
        request = {key: value for key, value in request.items() if key not in VOLATILE}
    return json.dumps(request, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def first_difference(recorded: Any, asked: Any, where: str = "") -> str:
    """Where two requests differ first, with what each has there."""
    if isinstance(recorded, dict) and isinstance(asked, dict):
        for key in sorted(recorded.keys() | asked.keys()):
            if recorded.get(key, _ABSENT) != asked.get(key, _ABSENT):
                place = f"{where}.{key}" if where else key
                return first_difference(recorded.get(key, _ABSENT), asked.get(key, _ABSENT), place)
    if isinstance(recorded, list) and isinstance(asked, list):
        for index in range(max(len(recorded), len(asked))):
            one, other = _at(recorded, index), _at(asked, index)
            if one != other:
                return first_difference(one, other, f"{where}[{index}]")
    if isinstance(recorded, str) and isinstance(asked, str):
        start = next((i for i, (one, other) in enumerate(zip(recorded, asked, strict=False)) if one != other), None)
        start = max(0, (min(len(recorded), len(asked)) if start is None else start) - 20)
        recorded, asked = recorded[start:], asked[start:]
    return f"{where or 'the request'} was {_shown(recorded)}, is {_shown(asked)}"


_ABSENT = object()


def _at(values: list[Any], index: int) -> Any:
    return values[index] if index < len(values) else _ABSENT


def _shown(value: Any) -> str:
    if value is _ABSENT:
        return "absent"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _likeness(recorded: str, asked: str) -> tuple[int, float]:
    """How much two requests have in common: how far they are the same, then how alike what follows is."""
    common = next(
        (i for i, (one, other) in enumerate(zip(recorded, asked, strict=False)) if one != other),
        min(len(recorded), len(asked)),
    )
    rest = slice(common, common + 400)
    return common, difflib.SequenceMatcher(None, recorded[rest], asked[rest], autojunk=False).quick_ratio()
