"""Text influenced by agents is made safe to display."""

from __future__ import annotations

import io
import re
import time
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_mlebench.io.units import Inert, inert, plain
from pytest_mlebench.reports.plots.svg import safe


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("\x1b[1;31merror\x1b[0m", "error"),
        ("\x1b]8;;https://example.com\x1b\\link\x1b]8;;\x07", "link"),
        ("\x1b(Bplain\x1b[2K", "plain"),
        ("  5 %\r 50 %\r100 %\nnext", "100 %\nnext"),
        ("windows\r\nlines\r\n", "windows\nlines\n"),
        ("a\x00b\x9bc\ud800d\u202ee", "a�b�c�d�e"),
        ("a\u2028b\u200bc\ufeffd\U000e0041e", "a�b�c�d�e"),
        ("tabs\tand\nlines <b> & 'quotes'", "tabs\tand\nlines <b> & 'quotes'"),
    ],
)
def test_text_is_shown_as_a_terminal_would_render_it(written: str, shown: str) -> None:
    assert plain(written) == shown


def test_long_text_is_truncated() -> None:
    assert plain("x" * 30, max_characters=10) == "x" * 10 + "…"


@given(st.text(st.characters(exclude_categories=[]), max_size=200))
def test_any_text_can_be_embedded_in_a_page_and_a_plot(text: str) -> None:
    element = f'<a b="{safe(text)}">{safe(text)}</a>'
    tree = ElementTree.fromstring(element.encode())
    assert tree.text or not plain(text)
    assert plain(plain(text)) == plain(text)


ORDERS = (
    "::add-mask::x", "  ::stop-commands::x", "\t::error file=a::b", ":::add-mask::x", "::::add-mask::x", ":::::x",
    "a :::set-env name=A::b", "\u00a0::debug::x", "\u3000::debug::x", "\x85::debug::x", "\x0b::debug::x",
    "\u2029::debug::x", "x\r::debug::x", "\x1b[1m::debug::x", "\x1b[1m:\x1b[0m:debug::x", "\x1b]0;t\x07::debug::x",
    "first\n::group::x", "##[group]x", "###[group]x", "##vso[task.setvariable variable=A]b", "#\x1b[0m#[error]x",
    "a##vso[task.complete]", "##teamcity[buildStop]", "# ##[section]x", "##\x1b[0m[warning]x", "####vso[x]y",
)  # fmt: skip
"""Commands of GitHub, Azure and TeamCity, and forms that become such commands when they are cleaned."""


def obeyed(text: str) -> bool:
    """Whether a CI runner would interpret a line as a command, also after a table breaks the line at a space."""
    lines = [line.strip() for line in text.replace(" ", "\n").splitlines()]
    return any(re.match(r"::\S", line) for line in lines) or bool(re.search(r"##[^\s\[\]]{0,64}\[", text))


@pytest.mark.parametrize("order", ORDERS)
def test_text_cannot_issue_ci_commands(order: str) -> None:
    assert not obeyed(plain(order)), plain(order)
    written = io.StringIO()
    assert Inert(written).write(plain(order)) == len(plain(order))
    assert written.getvalue() == plain(order)
    written = io.StringIO()
    Inert(written).writelines([f"{order}\n", order])
    assert written.getvalue() == inert(f"{order}\n") + inert(order)


@pytest.mark.parametrize("text", ["#" * 20_000, f"a{':' * 64_000}", f"a{':' * 32_000}{'x' * 32_000}"])
def test_cleaning_takes_linear_time(text: str) -> None:
    started = time.process_time()
    plain(text)
    assert time.process_time() - started < 5, "quadratic time is more than half a minute"


@given(st.text(":#[]x \n\x1b\r", max_size=30))
def test_no_mixture_of_characters_is_a_ci_command(text: str) -> None:
    assert not obeyed(plain(text)), plain(text)
