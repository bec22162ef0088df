"""Commands and options in all messages of the package exist."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache

import pytest

from pytest_mlebench import options as settings
from tests.docs.pages import ROOT
from tests.docs.test_words import OF_OTHERS, known_options, parsers

PACKAGE = ROOT / "pytest_mlebench"
COMMAND = re.compile(r"(?:`|^|\n *|: |; )(?P<program>mlebench|pytest) (?P<rest>[a-z<*-][^`\n;]*)")
"""A command in backticks, at the start of a text or a line, or after a colon."""
OPTION = re.compile(r"(?<![\w./-])--[a-z][a-z0-9-]*[a-z0-9](?![\w{-])")
OF_PROGRAMS = {
    "--anchored": "tar",
    "--exclude": "tar",
    "--force-reinstall": "pip",
    "--init-groups": "setpriv",
    "--no-anchored": "tar",
    "--no-deps": "pip",
    "--nv": "apptainer exec",
    "--preserve": "setpriv",
    "--regid": "setpriv",
    "--reuid": "setpriv",
    "--upgrade": "pip",
}
"""Options of other programs, in addition to those that pages mention."""
PLACE = "{}"
"""Placeholders for values in a text."""


@cache
def texts() -> dict[str, str]:
    """Text by location, of strings in modules, except docstrings, and of lines in other files."""
    return dict(_texts())


def _texts() -> Iterator[tuple[str, str]]:
    for path in sorted(PACKAGE.rglob("*")):
        name = str(path.relative_to(ROOT))
        if path.suffix == ".py":
            yield from ((f"{name}:{line}", text) for line, text in strings(ast.parse(path.read_text("utf-8"))))
        elif path.suffix in (".html", ".js", ".md", ".sh", ".txt", ".yaml"):
            yield from ((f"{name}:{n}", line) for n, line in enumerate(path.read_text("utf-8").splitlines(), 1))


def strings(tree: ast.AST) -> Iterator[tuple[int, str]]:
    if isinstance(tree, ast.Expr) and isinstance(tree.value, ast.Constant):
        return
    if isinstance(tree, ast.JoinedStr):
        parts = [part.value if isinstance(part, ast.Constant) else PLACE for part in tree.values]
        yield tree.lineno, "".join(map(str, parts))
    elif isinstance(tree, ast.Constant) and isinstance(tree.value, str):
        yield tree.lineno, tree.value
    else:
        for child in ast.iter_child_nodes(tree):
            yield from strings(child)


def wrong(program: str, rest: str) -> str:
    """The part of a command in a text that does not exist, or an empty string."""
    if program == "pytest":
        known = {name for option in settings.OPTIONS.values() for name in (option.name, option.long_name)}
        named = set(OPTION.findall(rest))
    else:
        name, _, rest = rest.partition(" ")
        name = re.split(r"[^a-z-]", name)[0]
        if (parser := parsers().get(name)) is None:
            return name
        known = set(parser._option_string_actions)
        named = set(OPTION.findall(rest))
    return ", ".join(sorted(named - known - OF_OTHERS.keys() - {"--help", "--markers"}))


def test_commands_in_messages_have_existing_options() -> None:
    shown = [
        (place, found["program"], found["rest"]) for place, text in texts().items() for found in COMMAND.finditer(text)
    ]
    assert len(shown) > 50
    failed = [f"{place}: {program} {rest}: {what}" for place, program, rest in shown if (what := wrong(program, rest))]
    assert not failed, "\n".join(failed)


def test_options_in_messages_exist() -> None:
    known = known_options() | OF_OTHERS.keys() | OF_PROGRAMS.keys() | {"--help", "--version", "--markers"}
    sentences = {
        place: text
        for place, text in texts().items()
        if ".py:" in place and "var(--" not in text and len(re.findall(r"[a-z]+ ", text)) > 2
    }
    found = [(place, name) for place, text in sentences.items() for name in OPTION.findall(text) if name not in known]
    assert len(sentences) > 1000
    assert not found, "\n".join(map(str, found))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("see `mlebench verify`", ""),
        ("use `mlebench prepaer`", "prepaer"),
        ("`mlebench list --split=lite --sizes`", "--sizes"),
        ("to try again: pytest --agents={}", "--agents"),
    ],
)
def test_a_wrong_command_is_found(text: str, expected: str) -> None:
    ((found, *_),) = [[wrong(own["program"], own["rest"])] for own in COMMAND.finditer(text)]
    assert found == expected
