"""Checks of prepared tables: cells that ``prepare.py`` changed by mistake, and the numbers of rows and classes.

pandas converts values when it reads a table, and writes the converted values: numbers lose leading zeros, and "NA"
becomes an empty cell. Nothing fails, but ids no longer match, and categories are missing.

Version 2 splits whole groups at random, with a key of the data store. The number of rows on each side, and whether
both sides have each class, are known only after real data is prepared: ``state.json`` records them.
"""

from __future__ import annotations

import csv
import math
import re
import sys
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal, InvalidOperation
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_mlebench.catalog import Competition
from pytest_mlebench.data.dataset import Dataset
from pytest_mlebench.io.units import pluralize

if TYPE_CHECKING:
    import pandas as pd  # takes longer to import than everything else in a session

_SEPARATORS = {".csv": ",", ".tsv": "\t"}
_MAX_BYTES = 1 << 27
"""Size of the largest table that is compared."""
_MAX_CELLS = 20_000
"""Maximum number of distinct cells per column that are explained one by one."""
_MISSING = frozenset("NA N/A n/a NaN nan null NULL None <NA> #N/A #NA -NaN -nan".split())
"""Strings that pandas reads as a missing value."""
_MIN_EXPLAINED = 0.5
"""The share of a column's new cells that one kind of change must explain."""

Cells = Counter[str]


def changed_cells(competition: Competition, raw: Path, dataset: Dataset) -> list[str]:
    """Describe the columns of prepared tables whose cells differ from the raw column of that name, a sentence for each.

    Finds lost leading zeros, less precise numbers, rewritten dates, strings such as "NA" that became empty, changed
    spaces or capitals, and text read in the wrong encoding. Compares CSV and TSV files of up to 128 MB below ``raw``,
    and next to ``prepare.py`` if the competition is bundled. Values that ``prepare.py`` computes are not reported.
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
    """Return whether cells are compared: not if checksums or golden results prescribe the reference's bytes."""
    fixed = competition.is_corrected or competition.checksums
    return not fixed and (
        not competition.file("golden.json").is_file() or competition.golden.get("origin") != "reference"
    )


def _columns(paths: Iterable[Path]) -> dict[str, Cells]:
    """Count each string in each column of the tables among the files."""
    found: dict[str, Cells] = {}
    for path in (path for path in paths if path.suffix.lower() in _SEPARATORS):
        for name, values in _table(path).items():
            found.setdefault(str(name), Counter()).update(map(str, values))
    return found


def _table(path: Path) -> pd.DataFrame:
    """Read a table of strings; empty if the file cannot be read as a table."""
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
    """Describe how the cells of a column were changed; empty if they are unchanged or computed values."""
    texts = {text for text in raw.keys() & _MISSING if text not in prepared}
    if texts and prepared[""] > 0 and any(_number(text) is None for text in raw.keys() - _MISSING - {""}):
        cells = pluralize(sum(raw[text] for text in texts), "cell")
        return f"{_quoted(min(texts))} in the raw data became empty ({cells})"
    numbers = {number for text in raw if not _without_zeros(text) and (number := _decimal(text)) is not None}
    new = [text for text in prepared if text not in raw and _decimal(text) not in numbers][:_MAX_CELLS]
    gone = [text for text in raw if text not in prepared] or list(raw)
    for what, find in _KINDS.items():
        origins = find(new, gone)
        if len(origins) > len(new) * _MIN_EXPLAINED:
            text = min(origins)
            shown = f"{_quoted(origins[text])} in the raw data became {_quoted(text)}"
            return f"{shown}: {what} ({pluralize(sum(prepared[text] for text in origins), 'cell')})"
    return ""


Origins = Mapping[str, str]
"""Maps new cells to the raw cells that they come from."""
Key = Callable[[str], str | None]
"""Returns a key that is equal for matching cells; None matches nothing."""


def _pairs(new_key: Key, raw_key: Key, new: Sequence[str], raw: Sequence[str]) -> Origins:
    origins = {key: text for text in raw if (key := raw_key(text)) is not None}
    return {text: origins[key] for text in new if (key := new_key(text)) is not None and key in origins}


def _without_zeros(text: str) -> str | None:
    return match[1] if (match := re.fullmatch(r"0+(\d+)", text)) else None


def _whole(text: str) -> str | None:
    """Return an integer without the fraction that pandas adds to columns with missing values."""
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
    """Match numbers to close raw numbers with more digits, or to integers that differ in the last digits."""
    numbers = sorted((number, text) for text in raw if (number := _number(text)) is not None)
    found = {}
    for text in new:
        value = _number(text)
        if value is None or not numbers:
            continue
        right = min(bisect_left(numbers, (value, "")), len(numbers) - 1)
        number, origin = min(numbers[max(right - 1, 0) : right + 1], key=lambda pair: abs(pair[0] - value))
        if _is_rounding(origin, text, number, value):
            found[text] = origin
    return found


def _is_rounding(origin: str, text: str, number: float, value: float) -> bool:
    """Return whether ``text`` lost digits of ``origin`` that a float64 can represent, or that an integer has."""
    before, after = _decimal(origin), _decimal(text)
    if before is None or after is None or (number == value and before != before.to_integral_value()):
        return False
    _, digits, exponent = after.as_tuple()
    if not isinstance(exponent, int) or exponent > sys.float_info.max_10_exp:  # such as that of the id 0e462097
        return False
    last = 10.0**exponent
    return abs(number - value) <= max(0.51 * last if len(digits) < 15 else 0, 1e-6 * abs(number)) and (
        len(before.as_tuple().digits) > len(digits) or len(digits) > 8
    )


_DATE = re.compile(r"(\d{1,4})[-/.](\d{1,2})[-/.](\d{1,4})(?:[T ](\d{1,2}:\d{2}[:0-9.]*).*)?")


def _dates(new: Sequence[str], raw: Sequence[str]) -> Origins:
    """Match dates in another format, or with day and month swapped."""
    dates = {date: text for text in raw for date in _readings(text)}
    return {text: dates[date] for text in new for date in _readings(text) if date in dates}


def _readings(text: str) -> Iterator[tuple[int, int, int, str]]:
    """Yield the possible meanings of a string as year, month, day and time."""
    if match := _DATE.fullmatch(text):
        first, second, third = map(int, match.groups()[:3])
        time = (match[4] or "").rstrip("0:.")
        if len(match[1]) == 4:
            yield first, second, third, time
        elif len(match[3]) == 4:
            yield third, second, first, time
            yield third, first, second, time


def _misread(text: str) -> str | None:
    """Restore UTF-8 text that was decoded with another encoding; None if it was not."""
    if "\ufffd" in text:
        return None
    for encoding in ("cp1252", "latin-1"):
        try:
            restored = text.encode(encoding).decode("utf-8")
        except UnicodeError:
            continue
        return restored if restored != text else None
    return None


def _ascii(text: str) -> str | None:
    """Return only the ASCII characters of a string; None if all are ASCII."""
    return None if text.isascii() else "".join(letter for letter in text if letter.isascii())


def _plain(text: str) -> str | None:
    return " ".join(text.split()).casefold() or None


_KINDS: Mapping[str, Callable[[Sequence[str], Sequence[str]], Origins]] = {
    "leading zeros are lost": partial(_pairs, _whole, _without_zeros),
    "dates have a different format": _dates,
    "the text was read in the wrong encoding": partial(_pairs, _misread, str),
    "letters are lost": partial(_pairs, lambda text: _ascii(text) if "\ufffd" in text else None, _ascii),
    "spaces or capitals differ": partial(_pairs, _plain, _plain),
    "numbers are less precise": _rounded,
}


def _quoted(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:37] + "...")


_MAX_COUNTED_BYTES = 1 << 28
"""Size of the largest table that is counted: preparation must not take much longer."""
_MAX_CLASSES = 100


def count_sides(dataset: Dataset) -> dict[str, Any]:
    """Count the rows of the test and the training data, and the rows of each class by target column.

    The test data is the table of answers; the training data is the public table ``*train*`` with most target columns.
    Columns with more than 100 values have no classes. A side is left out if it is not a CSV file of up to 256 MB.
    """
    targets = set(columns_of(dataset.sample_submission)[1:]) & set(columns_of(dataset.answers))
    tables = [path for path in sorted(dataset.public.glob("*")) if "train" in path.name.lower() and columns_of(path)]
    found = {"test": _counts(dataset.answers, targets)}
    if tables:
        train = max(tables, key=lambda path: len(targets.intersection(columns_of(path))))
        found["train"] = {"file": train.name, **_counts(train, targets)}
    return {side: counts for side, counts in found.items() if "rows" in counts}


def columns_of(path: Path) -> list[str]:
    """Return the columns of a CSV file; empty if it is too large, has a column name of 128 KiB, or is no CSV file."""
    if path.suffix != ".csv" or not path.is_file() or path.stat().st_size > _MAX_COUNTED_BYTES:
        return []
    with path.open(encoding="utf-8", errors="replace", newline="") as file, suppress(csv.Error):
        return next(csv.reader([file.readline()]), [])
    return []


def _counts(path: Path, targets: set[str]) -> dict[str, Any]:
    columns = columns_of(path)
    if not columns:
        return {}
    import pandas as pd

    wanted = [name for name in columns if name in targets] or columns[:1]
    try:
        rows = pd.read_csv(path, usecols=wanted, dtype=str, keep_default_na=False, encoding_errors="replace")
    except ValueError:  # not a table
        return {}
    classes = {
        str(name): {str(value): int(count) for value, count in rows[name].value_counts().sort_index().items()}
        for name in rows
        if name in targets and rows[name].nunique() <= _MAX_CLASSES
    }
    return {"rows": len(rows), "classes": classes}
