"""Text that an agent influenced, made safe to show: it may command a terminal, mislead a reader or break a page."""

from __future__ import annotations

import re
from typing import IO, Any

# What a terminal obeys: colours and cursor moves (CSI), titles and links (OSC), and the short ones.
_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~])")
# Controls (C0 and C1), halves of surrogate pairs, marks that change the direction of text or end a line, characters
# that nobody sees (in which a model could find orders), and what XML does not allow.
_UNSHOWN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\ufff9-\ufffb\ufffe\uffff\U000e0000-\U000e0fff]"
)
# What continuous integration takes from a log for orders: GitHub's ``::add-mask::``, at the start of a line, wherever a
# table may break one; and ``##[…]``, ``##vso[…]``, ``##teamcity[…]`` of GitHub, Azure and TeamCity, anywhere. GitLab's
# sections need control characters.
_COMMAND = re.compile(r"(?<!\S):{2,}|:{2,}(?=[^\s:][^:\n]*::)|#(?=#+[^\s\[\]]{0,64}\[)")


def inert(text: str) -> str:
    """The text with a space in whatever a system of continuous integration would take for an order.

    >>> inert("::add-mask::e")
    ': :add-mask::e'
    """
    return _COMMAND.sub(_spaced, text) if _may_command(text) else text


def _spaced(found: re.Match[str]) -> str:
    return "# " if found[0] == "#" else " ".join(found[0])


def _may_command(text: str) -> bool:
    return "::" in text or "##" in text


class Inert:
    """A stream of text to which nothing is written that continuous integration would obey; all else is the stream's."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        self._stream.write(inert(text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def plain(text: str, max_characters: int | None = None) -> str:
    r"""The text as a terminal would finally show it, without control sequences; what cannot be shown becomes ``�``.

    Of a line that was overwritten, as progress bars are, the last state is kept; orders to continuous integration are
    none any more (see ``inert``). Markup is not escaped.

    >>> plain("\x1b[31mred\x1b[0m")
    'red'
    >>> plain("10 %\r100 %\r\n")
    '100 %\n'
    """
    if max_characters is not None and len(text) > max_characters:
        text = text[:max_characters] + "…"
    text = _SEQUENCE.sub("", text).replace("\r\n", "\n")
    if "\r" in text:
        text = "\n".join(line.rstrip("\r").rsplit("\r", 1)[-1] for line in text.split("\n"))
    return inert(_UNSHOWN.sub("\ufffd", text))


def no_formula(text: str) -> str:
    """A text for a cell, which no spreadsheet takes for a formula.

    >>> no_formula("=1+1")
    "'=1+1"
    """
    return f"'{text}" if text.lstrip().startswith(("=", "+", "-", "@")) else text


def one_line(text: str) -> str:
    r"""The text in one line, for a cell of a table.

    >>> one_line("two\n lines")
    'two lines'
    """
    return " ".join(plain(text).split())
