"""Searches the public files for answers."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pytest_mlebench.catalog.competition import Competition
from pytest_mlebench.data.dataset import Dataset, md5
from pytest_mlebench.gate.groups import shared_groups
from pytest_mlebench.gate.metadata import CONTENT, ORDER, ROWS, archive_of, attacks, some_of, stem_of
from pytest_mlebench.gate.public_files import PublicFile, entries, metadata, table, text_table
from pytest_mlebench.io.units import pluralize

_LINES = {".csv", ".tsv", ".txt", ".jsonl", ".ndjson"}
_WITHOUT_LINES = {".parquet", ".pq", ".npy", ".json"}
_BETWEEN_FIELDS = frozenset(b" ,;:|\t\r\n\"'[](){}<>=\0")
_ORDERED = ("time of change", "time of the inode's change", "inode", "place in the directory")
_LONG, _SEARCHED, _FOUND, _CLASSES = 6, 60, 0.95, 20
Truth = Mapping[str, Mapping[str, str]]
"""The true values by id, for each column that a submission must predict; all as strings."""


def exposed(competition: Competition, dataset: Dataset) -> tuple[list[str], list[str]]:
    """Return groups on both sides of the split, and leaks unless one is known. Raises as ``shared_groups``."""
    opened = list(entries(dataset.public))
    shared = shared_groups(competition, dataset, opened)
    return shared, [] if competition.known_leak else find_leaks(dataset, opened)


def find_leaks(dataset: Dataset, opened: Sequence[PublicFile] | None = None) -> list[str]:
    """Return public files that reveal answers, one sentence each; empty if none was found.

    Searches for copies of private files, for long true values anywhere, and for true values next to their ids, or in
    the ids' order, in tables of many formats and nested archives. Also checks metadata: files' sizes, times, comments
    and headers (of images, DICOM, NIfTI, WAV, AIFF, NumPy and Parquet files), neighbours in times, inodes, directories
    and archives, and the order and form of the ids. A classifier gets all of this metadata too (see ``gate.metadata``).
    It must do no better than chance or, for metadata that may follow from the content, not well. Files above 64 MB are
    only compared as a whole. Leaks in the content of images or recordings are not found; a competition must declare
    them as ``known_leak``. ``opened`` are the public files, if already read.
    """
    truth = true_values(dataset)
    ignored = (dataset.public / "description.md", dataset.sample_submission)
    found = dict.fromkeys(_copies(dataset))
    files = entries(dataset.public) if opened is None else opened
    opened = [entry for entry in files if dataset.public / entry.name not in ignored]
    if truth:
        ids = list(next(iter(truth.values())))
        found |= dict.fromkeys(_in_tables(opened, truth, ids))
        found |= dict.fromkeys(_anywhere(opened, truth))
        found |= dict.fromkeys(_in_metadata(opened, truth, ids))
        order = sample_order(dataset, truth)
        found |= dict.fromkeys(_in_ids(dataset, truth, order))
        found |= dict.fromkeys(_by_classifier(opened, truth, order))
    return list(found)


def _copies(dataset: Dataset) -> Iterator[str]:
    sample = md5(dataset.sample_submission)  # it may also be a private file
    private = {md5(path): path for path in _files(dataset.private) if path.stat().st_size}
    for path in _files(dataset.public):
        digest = md5(path)
        if digest in private and digest != sample:
            name = path.relative_to(dataset.public).as_posix()
            yield f"public/{name} is a copy of private/{private[digest].relative_to(dataset.private)}"


def true_values(dataset: Dataset) -> Truth:
    """Return the true values of the predicted columns, from the answers; empty if a submission is not a table.

    If answers and submissions share no column but the ids, these are all of the answers' columns that test.csv lacks.
    """
    sample, answers = text_table(dataset.sample_submission), text_table(dataset.perfect_submission)
    if sample is None or answers is None or (key := _key(sample, answers)) is None:
        return {}
    columns = answers.columns.intersection(sample.columns)
    if len(columns) < 2:
        test = dataset.public / "test.csv"
        public = text_table(test) if test.is_file() else None
        columns = answers.columns.difference([] if public is None else public.columns.difference([key]), sort=False)
    true = answers[columns].drop_duplicates(key).set_index(key)
    given = sample.drop_duplicates(key).set_index(key).reindex(true.index)
    # A sample submission may repeat columns of the test set, such as texts: these are not predicted.
    return {
        str(column): {str(id): str(value) for id, value in true[column].items()}
        for column in true.columns
        if (column not in given or not true[column].equals(given[column])) and true[column].nunique() > 1
    }


def sample_order(dataset: Dataset, truth: Truth) -> list[str]:
    """Return the ids in the order of the sample submission."""
    sample, known = text_table(dataset.sample_submission), set(next(iter(truth.values()), ()))
    columns = [] if sample is None else [[id for id in dict.fromkeys(sample[name]) if id in known] for name in sample]
    return max(columns, key=len, default=[])


def _key(sample: pd.DataFrame, answers: pd.DataFrame) -> str | None:
    """Return the id column: the first, or the second if the first has no name."""
    return next((str(name) for name in sample.columns[:2] if name in answers.columns), None)


def _in_tables(opened: Sequence[PublicFile], truth: Truth, ids: Sequence[str]) -> Iterator[str]:
    """Find true values next to the ids, or in their order if a table has as many rows."""
    known = set(ids)
    some = [id.encode() for id in some_of(ids, 20)]  # drawn: a table may hold every second id
    for entry in opened:
        names_ids = any(id in entry.content for id in some)
        if not (names_ids or entry.suffix in _WITHOUT_LINES or _has_lines(entry, len(ids))):
            continue
        rows = table(entry)
        if rows is None:
            continue
        sample = "sample" in entry.name.lower()  # it may have the values that answers are built from
        key, places = _places(rows, known)
        if key is None and len(rows) == len(ids) - 1:
            rows = pd.concat([pd.DataFrame([rows.columns], columns=rows.columns), rows])  # it has no header
        if key is None and len(rows) == len(ids):
            places = {id: place for place, id in enumerate(ids)}
        if not places:
            continue
        shared = rows.iloc[list(places.values())]
        for column in rows.columns.drop([] if key is None else [key]):
            values = shared[column].tolist()
            for name, true in truth.items():
                wanted = [true[id] for id in places]
                count = len(set(wanted))
                if equals(values, wanted):
                    yield f"public/{entry.name} contains the true values of {name!r}"
                elif sample or len(set(values)) != count or (key is None and count > _CLASSES):
                    continue  # without ids, many different values are more likely features
                elif tells(values, wanted):
                    yield f"public/{entry.name}: column {column!r} encodes the true values of {name!r}"


def _has_lines(entry: PublicFile, count: int) -> bool:
    return entry.suffix in _LINES and count - 1 <= entry.content.count(b"\n") <= count + 1


def _places(rows: pd.DataFrame, known: set[str]) -> tuple[str | None, dict[str, int]]:
    """Return the column with most of the ids, or of files named after them, and the row of each id."""
    for key in rows.columns:
        named = rows[key].tolist()
        if known.isdisjoint(named):
            named = [stem_of(name) for name in named]  # it may have file names
        places = {name: place for place, name in enumerate(named) if name in known}
        if len(places) >= max(2, len(known) / 2):
            return key, places
    return None, {}


def _anywhere(opened: Sequence[PublicFile], truth: Truth) -> Iterator[str]:
    for name, true in truth.items():
        values = list(dict.fromkeys(value for value in true.values() if len(value) >= _LONG))
        if len(values) < max(5, len(true) / 2):
            continue
        wanted = [value.encode() for value in some_of(values, _SEARCHED)]
        # Training data has the names of classes, and a sample submission repeats texts.
        other = [entry for entry in opened if not re.search("train|sample", entry.name, re.IGNORECASE)]
        places = [next((entry.name for entry in other if _holds(entry.content, value)), None) for value in wanted]
        if sum(place is not None for place in places) >= _FOUND * len(wanted):
            files = sorted({place for place in places if place})
            more = f" and {pluralize(len(files) - 1, 'more file')} contain" if len(files) > 1 else " contains"
            yield f"public/{files[0]}{more} the true values of {name!r}"


def _holds(content: bytes, value: bytes) -> bool:
    """Return whether a file contains a value as a separate field."""
    place = content.find(value)
    while place >= 0:
        end = place + len(value)
        before = place == 0 or content[place - 1] in _BETWEEN_FIELDS
        if before and (end == len(content) or content[end] in _BETWEEN_FIELDS):
            return True
        place = content.find(value, place + 1)
    return False


def _in_metadata(opened: Sequence[PublicFile], truth: Truth, ids: Sequence[str]) -> Iterator[str]:
    """Check metadata of test files that are named after ids, and their order by time or in an archive."""
    known = {stem_of(id): id for id in ids}  # an id may be a file's name
    kinds: dict[tuple[str, str], dict[str, PublicFile]] = {}
    for entry in opened:
        if (id := known.get(stem_of(entry.name))) is not None:
            kinds.setdefault((archive_of(entry), entry.suffix), {}).setdefault(id, entry)
    for (archive, suffix), named in kinds.items():
        if len(named) < max(8, len(known) / 2):
            continue
        where = f"public/{archive}" if archive else f"the public files *{suffix}"
        noted = pd.DataFrame.from_dict({id: metadata(entry) for id, entry in named.items()}, orient="index").fillna("")
        for name, true in truth.items():
            wanted = [true[id] for id in noted.index]
            for what in noted.columns:
                values = noted[what].tolist()
                if equals(values, wanted) or tells(values, wanted):
                    yield f"{where}: the {what} reveals the true values of {name!r}"
            if archive:
                if is_sorted(wanted):
                    yield f"{where}: the order of the files reveals the true values of {name!r}"
                names = [named[id].name for id in noted.index]
                if names != sorted(names) and neighbours_agree(range(len(wanted)), wanted):
                    yield f"{where}: neighbours in the order of the files reveal the true values of {name!r}"
            for what in _ORDERED:
                if what not in noted:  # a member of an archive
                    continue
                keys = noted[what].astype("int64")
                in_order = [true[id] for id in keys.sort_values().index]
                if (keys.is_unique and is_sorted(in_order)) or neighbours_agree(keys.tolist(), wanted):
                    yield f"{where}: the order by {what} reveals the true values of {name!r}"


_KINDS = {
    ORDER: "times, inodes, modes and order of files",
    CONTENT: "sizes, headers and folders of files",
    ROWS: "form of the ids and the order of rows",
}
_MAX_GAIN = 0.5
"""Sizes and ids may follow from content, or from how data was collected. They are a leak if the classifier gets more
than this share of what guessing gets wrong."""


def _by_classifier(opened: Sequence[PublicFile], truth: Truth, order: Sequence[str]) -> Iterator[str]:
    for attack in attacks(opened, truth, order):
        if attack.is_significant and (attack.kind == ORDER or attack.gain > _MAX_GAIN):
            yield (
                f"the {_KINDS[attack.kind]} reveal the {attack.target}: a classifier that sees only these is right for "
                f"{attack.right} of {attack.rows}, guessing for {attack.guess}; it uses the {attack.main_feature} most"
            )


def _in_ids(dataset: Dataset, truth: Truth, order: Sequence[str]) -> Iterator[str]:
    """Check whether the form of the ids, or their order in the sample submission, reveals the true values."""
    ids = list(next(iter(truth.values())))
    features: dict[str, list[Any]] = {
        "length of the ids": [len(id) for id in ids],
        "first character of the ids": [id[:1] for id in ids],
        "last character of the ids": [id[-1:] for id in ids],
        "parity of the ids": [int("0" + re.sub(r"\D", "", id)) % 2 for id in ids],
    }
    parts = [re.split(r"[^A-Za-z0-9]+", id) for id in ids]
    if len(widths := {len(words) for words in parts}) == 1:
        features |= {f"part {k + 1} of the ids": [words[k] for words in parts] for k in range(widths.pop())}
    for name, true in truth.items():
        wanted = list(true.values())
        for what, values in features.items():
            if tells(values, wanted):
                yield f"the {what} reveals the true values of {name!r}"
        if order and is_sorted([true[id] for id in order]):
            yield f"the order of the rows of {dataset.sample_submission.name} reveals the true values of {name!r}"


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.rglob("*")) if path.is_file())


_CHANCE = 1e-6
_LOG_CHANCE = -math.log(_CHANCE)
"""One in a million. So many features are tested that one in ten thousand runs reports a false leak."""
_NEARLY_ALL = 0.99
_MANY_PAIRS = 10
"""If at least this many are expected, the number of equal neighbours is nearly normally distributed."""


def tells(values: Sequence[Hashable], truth: Sequence[Hashable]) -> bool:
    """Return whether a few values encode the true ones: in nearly all rows, each value goes with one true value.

    >>> tells(["a", "b"] * 15, [0, 1] * 15), tells(["a", "b", "b"] * 10, [0, 1] * 15)
    (True, False)
    """
    if len(set(values)) > len(values) / 3 or not _is_unlikely(truth, len(set(values))):
        return False
    of_value: dict[Hashable, Counter[Hashable]] = {}
    for value, true in zip(values, truth, strict=True):
        of_value.setdefault(value, Counter())[true] += 1
    right = sum(max(counts.values()) for counts in of_value.values())
    by_guess = max(Counter(truth).values())
    return len(truth) - right <= (1 - _NEARLY_ALL) * (len(truth) - by_guess)


def equals(values: Sequence[str], truth: Sequence[str]) -> bool:
    """Return whether values equal the true ones in nearly all rows, or a linear function maps them to the true ones.

    >>> equals(["1.0", "3.0", "2"], ["1", "3", "2"]), equals(["3", "1", "2"], ["1", "3", "2"])
    (True, False)
    """
    if len(set(truth)) < 2 or len(set(values)) < 2:  # a constant would equal true values that are nearly constant
        return False
    same = np.mean([value == true for value, true in zip(values, truth, strict=True)])
    if same > _NEARLY_ALL:
        return True
    x, y = _numbers(values), _numbers(truth)
    if x is None or y is None or len(x) < 3:
        return False
    if np.isclose(x, y, rtol=1e-9, atol=0).mean() > _NEARLY_ALL:
        return True
    if len(np.unique(y)) < 10:
        return False
    with np.errstate(all="ignore"):
        return bool(abs(np.corrcoef(x, y)[0, 1]) > 1 - 1e-9)


def is_sorted(truth: Sequence[str]) -> bool:
    """Return whether true values only rise or only fall, as numbers if possible, else as strings.

    >>> is_sorted(["a"] * 20 + ["b"] * 20), is_sorted(["a", "b"] * 20)
    (True, False)
    """
    if not _is_unlikely(truth):
        return False
    numbers = _numbers(truth)
    pairs = list(pairwise(truth if numbers is None else numbers.tolist()))
    return all(one <= other for one, other in pairs) or all(one >= other for one, other in pairs)


def neighbours_agree(keys: Sequence[int], truth: Sequence[str]) -> bool:
    """Return whether rows with adjacent keys have equal true values far more often than by chance.

    If there are many different values, numbers count as equal on the same side of their median, and strings if both or
    neither are empty. Ties among the keys are ordered at random (with a fixed seed). The number of equal neighbours is
    compared with that of random orders, whose mean and variance are known: more than six standard deviations above the
    mean is not chance. If all classes but one are rare, that number is not normally distributed, and must also be rarer
    than one in a million.

    >>> neighbours_agree(range(60), ["a"] * 20 + ["b"] * 20 + ["a"] * 20), neighbours_agree(range(60), ["a", "b"] * 30)
    (True, False)
    """
    if len(truth) < 30 or not _is_unlikely(classes := _classes(truth).tolist()):  # few rows may agree by chance
        return False
    order = np.lexsort((np.random.RandomState(0).random_sample(len(keys)), np.asarray(keys)))
    of = np.asarray(classes)[order]
    n, counts = len(of), np.bincount(of).astype(float)
    pairs = float((counts * (counts - 1)).sum())
    mean = pairs / n
    three = float((counts * (counts - 1) * (counts - 2)).sum())
    both = pairs**2 - 4 * three - 2 * pairs  # ordered pairs of two disjoint pairs of rows
    variance = mean + 2 * three / (n * (n - 1)) + both / (n * (n - 1)) - mean**2
    same = of[1:] == of[:-1]
    if not same.sum() - mean > 6 * math.sqrt(abs(variance)):  # with one class, both are 0 but for rounding
        return False
    met = np.bincount(of[1:][same], minlength=len(counts))
    rare = np.delete(np.arange(len(counts)), counts.argmax())
    expected = float((counts * (counts - 1))[rare].sum() / n)
    return (
        expected >= _MANY_PAIRS
        or (expected > 0 and _chance_of_pairs(expected, int(met[rare].sum())) < _CHANCE)
        or any(_chance_of_runs(n, int(counts[c]), int(counts[c] - met[c])) < _CHANCE for c in rare)
    )


def _chance_of_pairs(expected: float, pairs: int) -> float:
    """Return the probability of at least so many pairs if they are rare (Poisson distribution)."""
    return 1 - sum(math.exp(k * math.log(expected) - expected - math.lgamma(k + 1)) for k in range(pairs))


def _chance_of_runs(n: int, count: int, runs: int) -> float:
    """Return the probability that ``count`` of ``n`` rows form at most ``runs`` runs.

    >>> round(_chance_of_runs(100, 2, 1), 9)  # 99 of 4950 places
    0.02
    """
    orders = sum(math.comb(count - 1, r - 1) * math.comb(n - count + 1, r) for r in range(1, runs + 1))
    return orders / math.comb(n, count)


def _classes(truth: Sequence[str]) -> NDArray[np.intp]:
    """Return each row's class: its true value; if there are many, whether it exceeds the median or is empty."""
    values, codes = np.unique(np.asarray(truth), return_inverse=True)
    if len(values) <= len(truth) / 4:
        return codes
    numbers = _numbers(truth)
    if numbers is not None:
        return (numbers > np.median(numbers)).astype(np.intp)
    empty = np.array([not text for text in truth])
    return empty.astype(np.intp) if empty.any() else codes


def _is_unlikely(truth: Sequence[Hashable], values: int = 0) -> bool:
    """Return whether the true values have so many possible orders that a match with one is not chance.

    ``values`` is the number of distinct other values; each may encode any true value.
    """
    orders = math.lgamma(len(truth) + 1) - sum(math.lgamma(count + 1) for count in Counter(truth).values())
    return orders - values * math.log(len(set(truth))) > _LOG_CHANCE


def _numbers(texts: Sequence[str]) -> NDArray[np.float64] | None:
    try:
        numbers = np.array([float(text) for text in texts])
    except (TypeError, ValueError):
        return None
    return numbers if np.isfinite(numbers).all() else None
