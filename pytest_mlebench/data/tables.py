"""What prepared tables hold: cells that ``prepare.py`` has changed, and how many rows and classes each side has.

pandas converts what it reads, and writes the converted values: numbers without their zeros, "NA" that is now empty.
Nobody asked for these changes and nothing fails, but ids no longer match, and categories are missing.

Version 2 draws whole groups, with a key of the data store. So how many rows come out on either side, and whether each
class is on both, is only known when real data is prepared: ``state.json`` records it.
"""

from __future__ import annotations

import csv
import math
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_mlebench.catalog import Competition
from pytest_mlebench.data.dataset import Dataset
from pytest_mlebench.io.units import pluralize

if TYPE_CHECKING:
    import pandas as pd  # which takes longer to import than all else of a session

_SEPARATORS = {".csv": ",", ".tsv": "\t"}
_MAX_BYTES = 1 << 27
"""Of a table that is read; larger ones are not compared."""
_MAX_CELLS = 20_000
"""Different cells of a column that are explained one by one."""
_MISSING = frozenset("NA N/A n/a NaN nan null NULL None <NA> #N/A #NA -NaN -nan".split())
"""What pandas takes for a missing value."""
_MOST = 0.5
"""The share of a column's new cells that a kind of change must explain."""

Cells = Counter[str]


def changed_cells(competition: Competition, raw: Path, dataset: Dataset) -> list[str]:
    """Columns of prepared tables whose cells differ from those of the raw column of that name, a sentence for each.

    Finds lost leading zeros, less precise numbers, rewritten dates, texts such as "NA" that became empty, changed
    spaces or capitals, and texts read in a wrong encoding. Compares CSV and TSV files of at most 128 MB below ``raw``,
    and beside ``prepare.py`` if the competition is ``bundled``. Values that ``prepare.py`` computes are not reported.
    """
    folders = [raw, *([competition.folder] if competition.source == "bundled" else [])]
    before = _columns(path for folder in folders for path in sorted(folder.rglob("*")))
    if not before:
        return []
    sample = dataset.sample_submission
    after: dict[str, tuple[list[str], Cells]] = {}
    for path in sorted(dataset.prepared.rglob("*")):
        for column, cells in _columns([path]).items() if path != sample else ():
            names, known = after.setdefault(column, ([], Counter()))
            names.append(path.relative_to(dataset.prepared).as_posix())
            known.update(cells)
    return [
        f"{' and '.join(names)}, column {column!r}: {problem}"
        for column, (names, cells) in after.items()
        if column in before and (problem := _problem(before[column], cells))
    ]


def is_comparable(competition: Competition) -> bool:
    """Whether cells are compared: not if the reference fixes them, whose bytes checksums and golden results hold."""
    fixed = competition.is_corrected or competition.checksums
    return not fixed and (
        not competition.file("golden.json").is_file() or competition.golden.get("origin") != "reference"
    )


def _columns(paths: Iterable[Path]) -> dict[str, Cells]:
    """How often each text is in each column of the tables among the files."""
    found: dict[str, Cells] = {}
    for path in (path for path in paths if path.suffix.lower() in _SEPARATORS):
        for name, values in _table(path).items():
            found.setdefault(str(name), Counter()).update(map(str, values))
    return found


def _table(path: Path) -> pd.DataFrame:
    """A table of texts; empty for what cannot be read as one."""
    import pandas as pd

    if not path.is_file() or path.stat().st_size > _MAX_BYTES:
        return pd.DataFrame()
    for encoding in ("utf-8", "cp1252"):
        try:
            return pd.read_csv(
                path, sep=_SEPARATORS[path.suffix.lower()], dtype=str, keep_default_na=False, encoding=encoding
            )
        except UnicodeDecodeError:
            continue
        except (OSError, ValueError):
            break
    return pd.DataFrame()


def _problem(raw: Cells, prepared: Cells) -> str:
    """How the cells of a column were changed; empty if they were not, or are values of their own."""
    texts = {text for text in raw.keys() & _MISSING if text not in prepared}
    if texts and prepared[""] > 0 and any(_number(text) is None for text in raw.keys() - _MISSING - {""}):
        cells = pluralize(sum(raw[text] for text in texts), "cell")
        return f"{_quoted(min(texts))} in the raw data became empty ({cells})"
    numbers = {number for text in raw if not _without_zeros(text) and (number := _decimal(text)) is not None}
    new = [text for text in prepared if text not in raw and _decimal(text) not in numbers][:_MAX_CELLS]
    gone = [text for text in raw if text not in prepared] or list(raw)
    for what, find in _KINDS.items():
        origins = find(new, gone)
        if len(origins) > len(new) * _MOST:
            text = min(origins)
            shown = f"{_quoted(origins[text])} in the raw data became {_quoted(text)}"
            return f"{shown}: {what} ({pluralize(sum(prepared[text] for text in origins), 'cell')})"
    return ""


Origins = Mapping[str, str]
"""New cells with the raw ones that they come from."""
Key = Callable[[str], str | None]
"""What two cells have in common; None matches nothing."""


def _pairs(new_key: Key, raw_key: Key, new: Sequence[str], raw: Sequence[str]) -> Origins:
    origins = {key: text for text in raw if (key := raw_key(text)) is not None}
    return {text: origins[key] for text in new if (key := new_key(text)) is not None and key in origins}


def _without_zeros(text: str) -> str | None:
    return match[1] if (match := re.fullmatch(r"0+(\d+)", text)) else None


def _whole(text: str) -> str | None:
    """A whole number without the fraction that pandas adds to columns with missing values."""
    return match[1] if (match := re.fullmatch(r"(\d+)(?:\.0)?", text)) else None


def _number(text: str) -> float | None:
    try:
        return float(text) if math.isfinite(float(text)) else None
    except ValueError:
        return None


def _decimal(text: str) -> Decimal | None:
    try:
        number = Decimal(text)
    except InvalidOperation:
        return None
    return number if number.is_finite() else None


def _rounded(new: Sequence[str], raw: Sequence[str]) -> Origins:
    """Numbers next to raw ones that have more digits, or that are whole and differ in their last digits."""
    numbers = sorted((number, text) for text in raw if (number := _number(text)) is not None)
    found = {}
    for text in new:
        value = _number(text)
        if value is None or not numbers:
            continue
        right = min(bisect_left(numbers, (value, "")), len(numbers) - 1)
        number, origin = min(numbers[max(right - 1, 0) : right + 1], key=lambda own: abs(own[0] - value))
        if _is_rounding(origin, text, number, value):
            found[text] = origin
    return found


def _is_rounding(origin: str, text: str, number: float, value: float) -> bool:
    """Whether ``text`` has lost digits of ``origin`` that a float64 can hold, or that a whole number has."""
    before, after = _decimal(origin), _decimal(text)
    if before is None or after is None or (number == value and before != before.to_integral_value()):
        return False
    _, digits, exponent = after.as_tuple()
    last = 10.0 ** (exponent if isinstance(exponent, int) else 0)
    return abs(number - value) <= max(0.51 * last if len(digits) < 15 else 0, 1e-6 * abs(number)) and (
        len(before.as_tuple().digits) > len(digits) or len(digits) > 8
    )


_DATE = re.compile(r"(\d{1,4})[-/.](\d{1,2})[-/.](\d{1,4})(?:[T ](\d{1,2}:\d{2}[:0-9.]*).*)?")


def _dates(new: Sequence[str], raw: Sequence[str]) -> Origins:
    """Dates in another form, or with the day and the month exchanged."""
    dates = {date: text for text in raw for date in _readings(text)}
    return {text: dates[date] for text in new for date in _readings(text) if date in dates}


def _readings(text: str) -> Iterator[tuple[int, int, int, str]]:
    """Year, month, day and time that a text can mean."""
    if match := _DATE.fullmatch(text):
        first, second, third = map(int, match.groups()[:3])
        time = (match[4] or "").rstrip("0:.")
        if len(match[1]) == 4:
            yield first, second, third, time
        elif len(match[3]) == 4:
            yield third, second, first, time
            yield third, first, second, time


def _misread(text: str) -> str | None:
    """A text in UTF-8 that was read as another encoding, as it was before."""
    if "\ufffd" in text:
        return None
    for encoding in ("cp1252", "latin-1"):
        try:
            own = text.encode(encoding).decode("utf-8")
        except UnicodeError:
            continue
        return own if own != text else None
    return None


def _ascii(text: str) -> str | None:
    """The plain letters of a text that has others."""
    return None if text.isascii() else "".join(letter for letter in text if letter.isascii())


def _plain(text: str) -> str | None:
    return " ".join(text.split()).casefold() or None


_KINDS: Mapping[str, Callable[[Sequence[str], Sequence[str]], Origins]] = {
    "leading zeros are lost": partial(_pairs, _whole, _without_zeros),
    "dates have another form": _dates,
    "the text was read in the wrong encoding": partial(_pairs, _misread, str),
    "letters are lost": partial(_pairs, lambda text: _ascii(text) if "\ufffd" in text else None, _ascii),
    "spaces or capitals differ": partial(_pairs, _plain, _plain),
    "numbers are less precise": _rounded,
}


def _quoted(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:37] + "...")


_MAX_COUNTED_BYTES = 1 << 28
"""Of a table that is read: preparing must not take much longer."""
_MAX_CLASSES = 100


def count_sides(dataset: Dataset) -> dict[str, Any]:
    """The number of rows, and of rows of each class by column, of the test and of the training data.

    The test is the table of answers, the training data the public table ``*train*`` that has most of the columns that
    are asked for. Columns with more than 100 values have no classes. A side is missing where it is no CSV file, or one
    above 256 MB.
    """
    asked = set(_columns_of(dataset.sample_submission)[1:]) & set(_columns_of(dataset.answers))
    tables = [path for path in sorted(dataset.public.glob("*")) if "train" in path.name.lower() and _columns_of(path)]
    found = {"test": _counts(dataset.answers, asked)}
    if tables:
        train = max(tables, key=lambda path: len(asked.intersection(_columns_of(path))))
        found["train"] = {"file": train.name, **_counts(train, asked)}
    return {side: counts for side, counts in found.items() if "rows" in counts}


def _columns_of(path: Path) -> list[str]:
    """The columns of a CSV file that is not too large; empty for others."""
    if path.suffix != ".csv" or not path.is_file() or path.stat().st_size > _MAX_COUNTED_BYTES:
        return []
    with path.open(encoding="utf-8", errors="replace", newline="") as file:
        return next(csv.reader([file.readline()]), [])


def _counts(path: Path, asked: set[str]) -> dict[str, Any]:
    columns = _columns_of(path)
    if not columns:
        return {}
    import pandas as pd

    wanted = [name for name in columns if name in asked] or columns[:1]
    try:
        rows = pd.read_csv(path, usecols=wanted, dtype=str, keep_default_na=False, encoding_errors="replace")
    except ValueError:  # no table after all
        return {}
    classes = {
        str(name): {str(value): int(count) for value, count in rows[name].value_counts().sort_index().items()}
        for name in rows
        if name in asked and rows[name].nunique() <= _MAX_CLASSES
    }
    return {"rows": len(rows), "classes": classes}
