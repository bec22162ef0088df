"""Parses and formats durations, sizes, scores and counts, and makes untrusted text safe to show.

Text that an agent influenced could control a terminal, mislead a reader or break a page.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import IO, Any

MAX_SECONDS = 100 * 366 * 86400
"""Longest time limit: a hundred years. The operating system's timers support little more."""
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_LARGEST = 1 << 63
_BYTES = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def parse_duration(text: str) -> float:
    """Parse ``24h``, ``90m``, ``30s``, ``1h30m`` or plain seconds into seconds; raises ValueError for anything else.

    Each part of several needs a unit: ``1h30`` could mean 30 minutes or 30 seconds.

    >>> parse_duration("1h30m")
    5400.0
    """
    stripped = text.strip().lower()
    if not re.fullmatch(r"\d+(?:\.\d+)?|(?:\d+(?:\.\d+)?\s*[smhd]\s*)+", stripped):
        raise ValueError(f"{text!r} is not a duration; write for example 24h, 90m or 30s")
    parts = re.findall(r"(\d+(?:\.\d+)?)\s*([smhd]?)", stripped)
    if (seconds := sum(float(number) * _SECONDS[unit] for number, unit in parts)) <= 0:
        raise ValueError(f"{text!r} must be longer than zero")
    if seconds > MAX_SECONDS:
        raise ValueError(f"{text:.20} is more than a hundred years")
    return seconds


def parse_size(text: str) -> int:
    """Parse ``440g``, ``512m``, ``64GiB`` (powers of 1024) or plain bytes into bytes; raises ValueError otherwise.

    >>> parse_size("2g")
    2147483648
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(?:([kmgt])(?:i?b)?|b)?", text.strip().lower())
    if match is None or not (size := float(match[1]) * _BYTES[match[2] or ""]) >= 1:
        raise ValueError(f"{text!r} is not a size; write for example 16g or 512m")
    if size >= _LARGEST:
        raise ValueError(f"{text:.20} is more than any machine has")
    return int(size)


def format_seconds(seconds: float) -> str:
    """A duration for a table, for example ``3.2 s``, ``4:05`` or ``23:59:59``."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def format_duration(seconds: float) -> str:
    """A duration in a sentence, with its two largest units.

    >>> [format_duration(seconds) for seconds in (3.25, 30, 600, 5400, 86400, 86399)]
    ['3.2 s', '30 s', '10 min', '1 h 30 min', '24 h', '24 h']
    """
    if seconds < 59.95:
        return f"{seconds:.1f}".removesuffix(".0") + " s"
    large, small, size = ("h", "min", 60) if round(seconds) >= 3600 else ("min", "s", 1)
    many, few = divmod(round(seconds / size), 60)
    return f"{many} {large}" + (f" {few} {small}" if few else "")


def format_score(score: float | None) -> str:
    """A score for a table, with five decimals."""
    return "-" if score is None else f"{score:.5f}"


def format_size(size: float) -> str:
    """A size for a reader, in powers of 1024, like the sizes that ``parse_size`` reads.

    >>> [format_size(size) for size in (440 << 30, 25.04 * (1 << 30), 1 << 20, 512, 1 << 64)]
    ['440 GiB', '25.04 GiB', '1 MiB', '512 bytes', '16 EiB']
    """
    units = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
    power = next((k for k in range(len(units) - 1) if size < 1 << 10 * (k + 1)), len(units) - 1)
    return f"{size / (1 << 10 * power):.4g} {units[power]}"


def listed(words: Sequence[str], conjunction: str = "and") -> str:
    """Words joined for use in a sentence.

    >>> listed(["low"]), listed(["low", "dev"]), listed(["low", "medium", "high"], "or")
    ('low', 'low and dev', 'low, medium or high')
    """
    return f" {conjunction} ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))


def first(lines: Sequence[str], most: int) -> list[str]:
    """The first lines, and a line with the number of the others.

    >>> first(["a", "b", "c"], 1), first(["a"], 1)
    (['a', 'and 2 more'], ['a'])
    """
    return [*lines[:most], f"and {len(lines) - most} more"] if len(lines) > most else [*lines]


def pluralize(number: int, word: str) -> str:
    """``1 seed``, ``3 seeds``."""
    return f"{number} {word}{'' if number == 1 else 's'}"


def have(count: int) -> str:
    """The form of *have* after a count."""
    return "has" if count == 1 else "have"


def format_dollars(cost: float | None) -> str:
    """US dollars for a table: with cents, or two significant digits if below 0.1; ``unknown`` for None.

    >>> format_dollars(12.345), format_dollars(0.00123), format_dollars(0.0)
    ('$12.35', '$0.0012', '$0')
    """
    if cost is None:
        return "unknown"
    if cost >= 0.1:
        return f"${cost:,.2f}"
    return f"${cost:.2g}" if cost >= 1e-4 or not cost else f"${cost:.6f}"


# Terminal escape sequences: colours and cursor moves (CSI), titles and links (OSC), and the short ones.
_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~])")
# Control characters (C0 and C1), lone surrogates, marks that change the direction of text or end a line, invisible
# characters (they could hide instructions to a model), and characters that XML does not allow.
_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\ufff9-\ufffb\ufffe\uffff\U000e0000-\U000e0fff]"
)
# Commands that continuous integration reads from logs: GitHub's ``::add-mask::`` at the start of a line, so wherever a
# table may break a line; and ``##[…]``, ``##vso[…]``, ``##teamcity[…]`` of GitHub, Azure and TeamCity, anywhere.
# GitLab's sections need control characters. Matching takes linear time: each run of colons is tried once, and after a
# number sign at most 65 characters are read.
_COMMAND = re.compile(r"(?<!\S):{2,}|(?<!:):{2,}+(?=[^\s:][^:\n]*::)|#(?=#[^\s\[\]]{0,64}+\[)")


def inert(text: str) -> str:
    """The text with a space in each log command that continuous integration would execute.

    >>> inert("::add-mask::e")
    ': :add-mask::e'
    """
    if "::" in text or "##" in text:  # a fast check
        text = _COMMAND.sub(lambda found: "# " if found[0] == "#" else " ".join(found[0]), text)
    return text


class Inert:
    """A text stream whose output contains no commands to continuous integration; otherwise like the inner stream."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        self._stream.write(inert(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def plain(text: str, max_characters: int | None = None) -> str:
    r"""The text as a terminal would finally show it, without control sequences. Unprintable characters become ``�``.

    Only the last state of an overwritten line, such as a progress bar, is kept. Commands to continuous integration are
    disabled (see ``inert``). Markup is not escaped.

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
    return inert(_UNPRINTABLE.sub("\ufffd", text))


def no_formula(text: str) -> str:
    """The text for a cell, which no spreadsheet interprets as a formula.

    >>> no_formula("=1+1")
    "'=1+1"
    """
    return f"'{text}" if text.lstrip().startswith(("=", "+", "-", "@")) else text


def one_line(text: str) -> str:
    r"""The text on one line, for a cell of a table.

    >>> one_line("two\n lines")
    'two lines'
    """
    return " ".join(plain(text).split())
