"""Text that agents influenced, made safe to show."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_mlebench.reports.plots.svg import safe
from pytest_mlebench.reports.untrusted import plain


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
def test_text_is_shown_as_a_terminal_would_finally_show_it(written: str, shown: str) -> None:
    assert plain(written) == shown


def test_long_text_is_cut() -> None:
    assert plain("x" * 30, max_characters=10) == "x" * 10 + "…"


@given(st.text(st.characters(exclude_categories=[]), max_size=200))
def test_any_text_can_stand_in_a_page_and_in_a_plot(text: str) -> None:
    element = f'<a b="{safe(text)}">{safe(text)}</a>'
    tree = ElementTree.fromstring(element.encode())
    assert tree.text or not plain(text)
    assert plain(plain(text)) == plain(text)
