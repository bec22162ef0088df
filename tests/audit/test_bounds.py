"""An audit parses, searches and compares a limited part of the code that a run left."""

from __future__ import annotations

import ast
import re
from typing import Any, cast

import pytest

from pytest_mlebench.extras.audit import fingerprints
from pytest_mlebench.extras.audit.fingerprints import Fingerprinter, Parameters
from pytest_mlebench.extras.audit.programs import Program


class Looking:
    """A fake pattern that records the searched text and never matches."""

    def __init__(self) -> None:
        self.parts: list[int] = []

    def search(self, text: str) -> None:
        self.parts.append(len(text))


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Lengths of the parsed texts."""
    lengths: list[int] = []

    def note(text: str) -> ast.Module:
        lengths.append(len(text))
        return ast.Module([], [])

    monkeypatch.setattr("pytest_mlebench.extras.audit.programs.ast.parse", note)
    return lengths


@pytest.mark.parametrize("text", ["x = 1 + y\n" * 41_000, "x = [" + "1," * 2_000_000 + "]"], ids=["lines", "a line"])
def test_a_large_file_is_not_parsed_and_searched_in_short_parts(text: str, parsed: list[int]) -> None:
    program, looking = Program("code/large.py", text), Looking()
    facts = program.facts
    assert not facts.is_python and not list(program.nodes()) and not facts.joined and not facts.decoded
    list(program.search(cast("re.Pattern[str]", looking)))
    assert parsed == []
    assert max(looking.parts) <= 1000
    assert sum(looking.parts) <= (250_000 if "\n" not in text else len(text))
    assert facts.unread[0] == "this code is too large to be parsed: only its lines were searched"


def test_400000_characters_are_parsed_and_one_more_is_not(parsed: list[int]) -> None:
    for length, may_parse, parses in ((400_000, True, True), (400_001, True, False), (400_000, False, False)):
        assert Program("x.py", "#" * length, may_parse=may_parse).facts.is_python == parses
    assert set(parsed) == {400_000}


def test_the_nodes_and_joined_strings_of_a_program_are_limited() -> None:
    program = Program("x.py", "x = 'a' + 'b'\n" * 100)
    assert len(program.facts.joined) == 200 and not program.facts.unread
    bounded = Program("x.py", program.text, max_nodes=50)
    assert len(list(bounded.nodes())) == 50 and len(bounded.facts.joined) < 100
    assert bounded.facts.unread == ("this code is too deep or too large to be read completely",)


@pytest.mark.parametrize(
    ("text", "options"),
    [("x" * 400_001, {}), ("x" * 400_001, {"raw": True}), ("x" * 500_000, {"suffix": ".ipynb", "raw": True})],
    ids=["a program", "a raw program", "a notebook"],
)
def test_larger_programs_are_not_passed_to_the_comparing_process(
    text: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def start() -> Any:
        raise AssertionError("a process was started")

    monkeypatch.setattr(fingerprints, "_start", start)
    with Fingerprinter(Parameters(), max_bytes=500_000) as take:
        assert take(text, **{"suffix": ".py", **options}) is None
        with pytest.raises(AssertionError):
            take("x" * 400_000, ".py")
