"""Answers from a recording: the same questions get the same answers, without a key, a network or a cost.

What a program measured or was given anew is in agents' questions too, and differs each time. Where no question was the
same to the letter, one counts that is the same but for such texts.
"""

from __future__ import annotations

import difflib
import json
import re
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytest_mlebench.llm.ledger import read_bodies
from pytest_mlebench.llm.requests import Refusal

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
_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*"
VOLATILE_TEXTS = {
    "date": r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?",
    "date in words": rf"(?:[A-Z][a-z]{{2,8}},? )?(?:{_MONTH} \d{{1,2}},? \d{{4}}|\d{{1,2}} {_MONTH} \d{{4}})",
    "clock": r"\d{1,3}:\d\d(?::\d\d)?(?:[.,]\d+)?",
    "duration": r"(?:\d+m ?\d+(?:\.\d+)?s|\d[\d,]*(?:\.\d+)?(?:e-?\d+)? ?(?:[mµun]?s|milliseconds?|secs?|seconds?|mins?"
    r"|minutes?|h|hrs?|hours?|days?)|an? (?:moment|second|minute|hour|day))(?!\w)",
    "rate": r"\d[\d.,]* ?(?:(?:it|steps?|samples?|rows?|batch(?:es)?)/s|s/it)(?!\w)",
    "UUID": r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}",
    "address": r"0x[0-9a-f]{4,}",
    "digest": r"[0-9a-f]{16,}(?![\w/+=])",
    "temporary file": r"/tmp/[\w./-]+",
    "process": r"(?:pid|PID)[ =:]+\d+",
}
"""What differs each time in what is otherwise the same question, as regular expressions."""
# Before each: no letter or digit, but perhaps an escape of JSON, whose last character is a letter.
_VOLATILE = re.compile(rf"(?:(?<=\\[nrt])|(?<![\w.]))(?:{'|'.join(VOLATILE_TEXTS.values())})")
_SHOWN = 160


class Recording:
    """What was asked and answered in an earlier run. To be used by one thread."""

    def __init__(self, run_dir: Path) -> None:
        # Agents read it: the other part of the name is the competition's, which may be hidden from them.
        self.run = run_dir.name.rpartition("_")[2]
        self._answers: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
        self._asked: list[tuple[int, str, str]] = []
        self._given: set[int] = set()
        for body in sorted(read_bodies(run_dir), key=lambda body: int(body.get("number") or 0)):
            if "response" not in body or not isinstance(path := body.get("path"), str):
                continue
            question = canonical(body.get("request"))
            same = without_volatile(question)
            for key in {f"{path} {question}", f"{path} {same}"}:
                self._answers[key].append(body)
            self._asked.append((int(body.get("number") or 0), path, same))

    def __len__(self) -> int:
        return len(self._asked)

    def find(self, path: str, request: Any) -> tuple[Mapping[str, Any], bool]:
        """The recorded answer: of a repeated question the next one, and the last one ever after.

        And whether the question differs from the recorded one, in ``VOLATILE_TEXTS`` that is.
        Raises Refusal that shows the first difference to the nearest question that was recorded.
        """
        question = canonical(request)
        same = without_volatile(question)
        exact = self._answers.get(f"{path} {question}")
        answers = exact or self._answers.get(f"{path} {same}")
        if not answers:
            raise Refusal("invalid", self._miss(path, same))
        answer = next((answer for answer in answers if id(answer) not in self._given), answers[-1])
        self._given.add(id(answer))
        return answer, not exact

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


def without_volatile(question: str) -> str:
    """A canonical question with a mark in place of each of its ``VOLATILE_TEXTS``."""
    return _VOLATILE.sub("<…>", question)


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
