"""Generates the worst submissions of a given file size from a good submission of any competition.

Each tries to make reading, checking or grading use excessive memory or time: one huge field, many small items in a
field, labels that are all different, numbers that could be used as a size, or very many rows, columns or ids. Which
case is worst depends on the grader, so every competition is tested with all.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import count, cycle, islice, repeat

import pandas as pd

WorstCase = tuple[str, Callable[[], bytes]]
"""Name of the case, and a function that generates the file's content."""

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.IGNORECASE)
_MAX_COLUMNS = 9_900
_ATTACKED_COLUMNS = 2
"""Only this many prediction columns are changed, because the others are similar."""


def worst_cases(good: pd.DataFrame, ids: Sequence[str], size: int) -> Iterator[WorstCase]:
    """The cases for a competition. ``good`` (all strings) is a valid submission; files have up to ``size`` bytes.

    A file may be larger by the size of the good submission, whose rows it has unless the case is about rows.
    """
    room = max(size - len(_csv(good)), size // 4)
    for column in [name for name in good.columns if name not in ids][:_ATTACKED_COLUMNS]:
        texts = good[column].tolist()
        for name, values in _values():
            yield f"{column}: {name}", partial(_with_each, good, column, values)
        for name, text in _words():
            yield f"{column}: {name}", partial(_with_one, good, column, text, room)
        if not all(_NUMBER.fullmatch(text) for text in texts if text):
            for name, text in _lists(texts):
                yield f"{column}: {name}, one field", partial(_with_one, good, column, text, room)
                yield f"{column}: {name}, all fields", partial(_with_all, good, column, text, room)
    for column in ids:
        if column in good:
            yield from _other_ids(good, column, room)
    yield from _tables(good, ids, size)


def _values() -> Iterator[tuple[str, Iterator[str]]]:
    """Cases with one value per row."""
    yield "different whole numbers", map(str, count(1000))
    yield "different numbers of 63 bits", (str(k) for k in count(2**62))
    yield "different fractions", (f"0.{k:09}" for k in count(1))
    yield "different labels", (f"x{k}" for k in count())
    yield "1e308 and -1e308", cycle(["1e308", "-1e308"])
    yield "2**64 - 1", cycle([str(2**64 - 1)])
    yield "numbers among text", cycle(["x", "1"])
    yield "true among numbers", cycle(["True", "1", ""])


def _words() -> Iterator[tuple[str, Callable[[int], str]]]:
    """Fields of the given size that are empty or contain a single item."""
    yield "one number", _repeat("9")
    yield "one word", _repeat("a")
    yield "one word beyond Unicode's first plane", _repeat("\U0001f600")
    yield "blanks", _repeat(" ")
    yield "deep JSON", _repeat('{"a":')


def _lists(texts: Sequence[str]) -> Iterator[tuple[str, Callable[[int], str]]]:
    """Fields of the given size with many items, if possible records like those in the good submission."""
    items = max(texts, key=len).split() or ["1", "1"]
    shorter = ["1" if _NUMBER.fullmatch(item) else item for item in items]
    yield "its items again and again", _fill(lambda: repeat(items))
    yield "its items with small numbers", _fill(lambda: repeat(shorter))
    yield "small numbers", _fill(lambda: repeat(["1"] * len(items)))
    yield "huge numbers", _fill(lambda: repeat(["1e308"] * len(items)))
    yield "huge whole numbers", _fill(lambda: repeat([str(2**62)] * len(items)))
    yield "every pixel, again and again", _fill(lambda: repeat(["1", "9999999"]))
    yield "every second pixel", _fill(lambda: ([str(k), "1"] for k in count(1, 2)))
    yield "different words", _fill(lambda: ([f"{k:x}"] for k in count(10)))
    yield "different labels", _fill(lambda: ([f"{k:x}" if x != "1" else x for x in shorter] for k in count(16)))


def _fill(records: Callable[[], Iterable[list[str]]]) -> Callable[[int], str]:
    """Returns a function that joins as many records as fit in a number of bytes, but at least one."""

    def filled(size: int) -> str:
        parts: list[str] = []
        for record in records():
            parts.append(" ".join(record))
            size -= len(parts[-1]) + 1
            if size < len(parts[-1]):
                break
        return " ".join(parts)

    return filled


def _repeat(piece: str) -> Callable[[int], str]:
    return lambda size: piece * (size // len(piece.encode()))


def _with_each(good: pd.DataFrame, column: str, values: Iterator[str]) -> bytes:
    return _csv(good.assign(**{column: list(islice(values, len(good)))}))


def _with_all(good: pd.DataFrame, column: str, text: Callable[[int], str], room: int) -> bytes:
    return _csv(good.assign(**{column: text(room // len(good))}))


def _with_one(good: pd.DataFrame, column: str, text: Callable[[int], str], room: int) -> bytes:
    """Replaces the longest text, because its row has the most answers to compare."""
    longest = good[column].str.len().argmax()
    return _csv(good.assign(**{column: [text(room) if k == longest else old for k, old in enumerate(good[column])]}))


def _other_ids(good: pd.DataFrame, column: str, room: int) -> Iterator[WorstCase]:
    first = good[column].iloc[0]
    ending = re.sub(r"\d+(?=\D*$)", str(10**9), first)
    yield f"{column}: one id", partial(_with_each, good, column, repeat(first))
    yield f"{column}: the first id's beginning", partial(_with_each, good, column, (f"{first}{k:04}" for k in count()))
    yield f"{column}: numbers", partial(_with_each, good, column, map(str, count()))
    yield f"{column}: one huge id", partial(_with_one, good, column, _repeat("a"), room)
    yield f"{column}: a huge number", partial(_with_one, good, column, _repeat("9"), room)
    yield f"{column}: a huge number at an id's end", partial(_with_one, good, column, lambda _: ending, room)


def _tables(good: pd.DataFrame, ids: Sequence[str], size: int) -> Iterator[WorstCase]:
    """Cases with many rows or columns."""
    header, _, rows = _csv(good).partition(b"\n")
    header += b"\n"
    key = next((name for name in ids if name in good), good.columns[0])
    width = len(good.columns)
    yield "rows again and again", lambda: header + rows * max(size // len(rows), 1)
    short = ",".join("1" if name == key else "" for name in good.columns)
    yield "rows of one id and nothing else", lambda: header + f"{short}\n".encode() * (size // (len(short) + 1))
    empty = b"," * (width - 1) if width > 1 else b'""'
    yield "empty rows", lambda: header + (empty + b"\n") * (size // (width + 1))
    row = good.iloc[0]
    lengths = sum(map(len, row)) + width + 8
    numbered = (
        ",".join(f"{row[key]}{k}" if c == key else row[c] for c in good.columns) for k in range(size // lengths)
    )
    if "," not in "".join(row) and '"' not in "".join(row):
        yield "rows with ids of their own", lambda: header + "\n".join(numbered).encode()
    digits = (",".join([str(k)] * width) for k in range(size // (8 * width)))
    yield "rows of different numbers", lambda: header + "\n".join(digits).encode()
    text, number = (b",".join([piece] * width) + b"\n" for piece in (b"x", b"1"))
    yield "text above numbers", lambda: header + text * (size // 2 // len(text)) + number * (size // 2 // len(number))
    yield "empty columns", lambda: _wide(header, rows, width, size)


def _wide(header: bytes, rows: bytes, width: int, size: int) -> bytes:
    more = _MAX_COLUMNS - width
    names = header[:-1] + b"".join(b",c%d" % k for k in range(more))
    lines = rows.rstrip(b"\n").split(b"\n")
    count = max((size - len(names)) // (more + len(rows) // len(lines) + 1), 1)
    wide = [line + b"," * more for line in lines[:count]]
    wide += [wide[0]] * (count - len(wide))
    return names + b"\n" + b"\n".join(wide)


def _csv(table: pd.DataFrame) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table.columns)
    writer.writerows(table.itertuples(index=False, name=None))
    return text.getvalue().encode()
