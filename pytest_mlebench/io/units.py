"""Durations, sizes, scores and counts as users write and read them."""

from __future__ import annotations

import re
from collections.abc import Sequence

_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_LONGEST = 100 * 366 * 86400
_LARGEST = 1 << 63
_BYTES = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def parse_duration(text: str) -> float:
    """Seconds of ``24h``, ``90m``, ``30s``, ``1h30m`` or plain seconds; ValueError for anything else.

    >>> parse_duration("1h30m")
    5400.0
    """
    parts = re.findall(r"(\d+(?:\.\d+)?)\s*([smhd]?)", text.strip().lower())
    if not parts or "".join(number + unit for number, unit in parts) != re.sub(r"\s+", "", text.lower()):
        raise ValueError(f"{text!r} is not a duration; write for example 24h, 90m or 30s")
    if (seconds := sum(float(number) * _SECONDS[unit] for number, unit in parts)) <= 0:
        raise ValueError(f"{text!r} must be longer than zero")
    if seconds > _LONGEST:
        raise ValueError(f"{text:.20} is more than a hundred years")
    return seconds


def parse_size(text: str) -> int:
    """Bytes of ``440g``, ``512m``, ``64GiB`` or plain bytes (units are powers of 1024); ValueError for anything else.

    >>> parse_size("2g")
    2147483648
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([bkmgt]?)(?:i?b)?", text.strip().lower())
    if match is None or not (size := float(match[1]) * _BYTES[match[2]]) >= 1:
        raise ValueError(f"{text!r} is not a size; write for example 16g or 512m")
    if size >= _LARGEST:
        raise ValueError(f"{text:.20} is more than a machine can have")
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
    """A score for a table, with the five decimals it is rounded to."""
    return "-" if score is None else f"{score:.5f}"


def format_size(size: float) -> str:
    """Bytes for a reader, in powers of 1024 as limits are given and as ``parse_size`` reads them.

    >>> [format_size(size) for size in (440 << 30, 25.04 * (1 << 30), 1 << 20, 512, 1 << 64)]
    ['440 GiB', '25.04 GiB', '1 MiB', '512 bytes', '16 EiB']
    """
    units = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
    power = next((k for k in range(len(units) - 1) if size < 1 << 10 * (k + 1)), len(units) - 1)
    return f"{size / (1 << 10 * power):.4g} {units[power]}"


def listed(words: Sequence[str]) -> str:
    """Words in a sentence.

    >>> listed(["low"]), listed(["low", "dev"]), listed(["low", "medium", "high"])
    ('low', 'low and dev', 'low, medium and high')
    """
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))


def pluralize(number: int, word: str) -> str:
    """``1 seed``, ``3 seeds``."""
    return f"{number} {word}{'' if number == 1 else 's'}"


def have(count: int) -> str:
    """The verb behind a count."""
    return "has" if count == 1 else "have"


def format_dollars(cost: float | None) -> str:
    """US dollars for a table: cents, and what is less with two digits; ``unknown`` for None.

    >>> format_dollars(12.345), format_dollars(0.00123), format_dollars(0.0)
    ('$12.35', '$0.0012', '$0')
    """
    if cost is None:
        return "unknown"
    if cost >= 0.1:
        return f"${cost:,.2f}"
    return f"${cost:.2g}" if cost >= 1e-4 or not cost else f"${cost:.6f}"
