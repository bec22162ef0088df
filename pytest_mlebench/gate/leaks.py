"""Looking for answers in the public files."""

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
"""For each column that a submission is asked for the true values by id, all as text."""


def exposed(competition: Competition, dataset: Dataset) -> tuple[list[str], list[str]]:
    """Groups on both sides of the split, and public files that give answers away; the latter are not looked for where
    the competition has a known leak. Raises as ``shared_groups``."""
    opened = list(entries(dataset.public))
    shared = shared_groups(competition, dataset, opened)
    return shared, [] if competition.known_leak else find_leaks(dataset, opened)


def find_leaks(dataset: Dataset, opened: Sequence[PublicFile] | None = None) -> list[str]:
    """Public files that give answers away, a sentence for each; empty if none was found.

    Looks for copies of the private files; for the true values beside their ids in tables of many kinds, in archives
    within archives too, or in their order; for long true values anywhere; and whether files' sizes, times, comments and
    headers (of images, DICOM, NIfTI, WAV, AIFF, NumPy and Parquet files), neighbours in times, inodes, directories and
    archives, or the order or the form of the ids tell them. A classifier is given all of this metadata, too (see
    ``gate.metadata``): it must do no better than chance, or, where metadata may follow from the content, not well.
    Files above 64 MB are only compared as a whole. It cannot see what the content of images or recordings hides: a
    competition's ``known_leak`` says so. ``opened`` are the public files, where they were read before.
    """
    truth = true_values(dataset)
    own = (dataset.public / "description.md", dataset.sample_submission)
    found = dict.fromkeys(_copies(dataset))
    files = entries(dataset.public) if opened is None else opened
    opened = [entry for entry in files if dataset.public / entry.name not in own]
    if truth:
        ids = list(next(iter(truth.values())))
        found |= dict.fromkeys(_in_tables(opened, truth, ids))
        found |= dict.fromkeys(_anywhere(opened, truth))
        found |= dict.fromkeys(_in_metadata(opened, truth, ids))
        order = sample_order(dataset, truth)
        found |= dict.fromkeys(_in_ids(dataset, truth, order))
        found |= dict.fromkeys(_by_a_classifier(opened, truth, order))
    return list(found)


def _copies(dataset: Dataset) -> Iterator[str]:
    sample = md5(dataset.sample_submission)  # it may lie among the private files
    private = {md5(path): path for path in _files(dataset.private) if path.stat().st_size}
    for path in _files(dataset.public):
        digest = md5(path)
        if digest in private and digest != sample:
            name = path.relative_to(dataset.public).as_posix()
            yield f"public/{name} is a copy of private/{private[digest].relative_to(dataset.private)}"


def true_values(dataset: Dataset) -> Truth:
    """What is asked for, from the answers; empty where a submission is no table.

    Where the answers name no column as submissions do, it is all of their columns that test.csv does not show.
    """
    asked, answers = text_table(dataset.sample_submission), text_table(dataset.perfect_submission)
    if asked is None or answers is None or (key := _key(asked, answers)) is None:
        return {}
    columns = answers.columns.intersection(asked.columns)
    if len(columns) < 2:
        test = dataset.public / "test.csv"
        given = text_table(test) if test.is_file() else None
        columns = answers.columns.difference([] if given is None else given.columns.difference([key]), sort=False)
    true = answers[columns].drop_duplicates(key).set_index(key)
    shown = asked.drop_duplicates(key).set_index(key).reindex(true.index)
    # A sample submission may repeat columns of the test set, such as texts: these are not asked for.
    return {
        str(column): {str(id): str(value) for id, value in true[column].items()}
        for column in true.columns
        if (column not in shown or not true[column].equals(shown[column])) and true[column].nunique() > 1
    }


def sample_order(dataset: Dataset, truth: Truth) -> list[str]:
    """The ids in the order of the sample submission."""
    asked, known = text_table(dataset.sample_submission), set(next(iter(truth.values()), ()))
    columns = [] if asked is None else [[id for id in dict.fromkeys(asked[name]) if id in known] for name in asked]
    return max(columns, key=len, default=[])


def _key(asked: pd.DataFrame, answers: pd.DataFrame) -> str | None:
    """The column of the ids: the first, or the second after one without a name."""
    return next((str(name) for name in asked.columns[:2] if name in answers.columns), None)


def _in_tables(opened: Sequence[PublicFile], truth: Truth, ids: Sequence[str]) -> Iterator[str]:
    """Beside the ids, or in their order where a table has as many rows."""
    known = set(ids)
    some = [id.encode() for id in some_of(ids, 20)]  # drawn: a table may hold every second id
    for entry in opened:
        names_ids = any(id in entry.content for id in some)
        if not (names_ids or entry.suffix in _WITHOUT_LINES or _has_lines(entry, len(ids))):
            continue
        rows = table(entry)
        if rows is None:
            continue
        sample = "sample" in entry.name.lower()  # it may hold what the truth is made of
        key, places = _places(rows, known)
        if key is None and len(rows) == len(ids) - 1:
            rows = pd.concat([pd.DataFrame([rows.columns], columns=rows.columns), rows])  # it has no heading
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
                    yield f"public/{entry.name} holds the true values of {name!r}"
                elif sample or len(set(values)) != count or (key is None and count > _CLASSES):
                    continue  # without ids, many values are rather what the answers are to be made of
                elif tells(values, wanted):
                    yield f"public/{entry.name}: column {column!r} stands for the true values of {name!r}"


def _has_lines(entry: PublicFile, count: int) -> bool:
    return entry.suffix in _LINES and count - 1 <= entry.content.count(b"\n") <= count + 1


def _places(rows: pd.DataFrame, known: set[str]) -> tuple[str | None, dict[str, int]]:
    """The column that names most of the ids, or files after them, and the row of each id."""
    for key in rows.columns:
        named = rows[key].tolist()
        if known.isdisjoint(named):
            named = [stem_of(name) for name in named]  # of a file
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
        # Training data names classes, a sample submission repeats texts.
        other = [entry for entry in opened if not re.search("train|sample", entry.name, re.IGNORECASE)]
        places = [next((entry.name for entry in other if _holds(entry.content, value)), None) for value in wanted]
        if sum(place is not None for place in places) >= _FOUND * len(wanted):
            files = sorted({place for place in places if place})
            more = f" and {pluralize(len(files) - 1, 'more file')}" if len(files) > 1 else ""
            yield f"public/{files[0]}{more} hold the true values of {name!r}"


def _holds(content: bytes, value: bytes) -> bool:
    """Whether a value stands in a file as a field of its own."""
    place = content.find(value)
    while place >= 0:
        end = place + len(value)
        before = place == 0 or content[place - 1] in _BETWEEN_FIELDS
        if before and (end == len(content) or content[end] in _BETWEEN_FIELDS):
            return True
        place = content.find(value, place + 1)
    return False


def _in_metadata(opened: Sequence[PublicFile], truth: Truth, ids: Sequence[str]) -> Iterator[str]:
    """What is said of the test's files, which are named after ids; and the order of times, or in an archive."""
    known = {stem_of(id): id for id in ids}  # an id may be a file's name
    kinds: dict[tuple[str, str], dict[str, PublicFile]] = {}
    for entry in opened:
        if (id := known.get(stem_of(entry.name))) is not None:
            kinds.setdefault((archive_of(entry), entry.suffix), {}).setdefault(id, entry)
    for (archive, suffix), named in kinds.items():
        if len(named) < max(8, len(known) / 2):
            continue
        where = f"public/{archive}" if archive else f"the public files *{suffix}"
        said = pd.DataFrame.from_dict({id: metadata(entry) for id, entry in named.items()}, orient="index").fillna("")
        for name, true in truth.items():
            wanted = [true[id] for id in said.index]
            for what in said.columns:
                values = said[what].tolist()
                if equals(values, wanted) or tells(values, wanted):
                    yield f"{where}: the {what} tells the true values of {name!r}"
            if archive:
                if is_sorted(wanted):
                    yield f"{where}: the order of the files tells the true values of {name!r}"
                names = [named[id].name for id in said.index]
                if names != sorted(names) and neighbours_agree(range(len(wanted)), wanted):
                    yield f"{where}: neighbours in the order of the files tell the true values of {name!r}"
            for what in _ORDERED:
                if what not in said:  # a member of an archive
                    continue
                keys = said[what].astype("int64")
                in_order = [true[id] for id in keys.sort_values().index]
                if (keys.is_unique and is_sorted(in_order)) or neighbours_agree(keys.tolist(), wanted):
                    yield f"{where}: the order of each {what} tells the true values of {name!r}"


_SEEN = {
    ORDER: "times, inodes, modes and order of files",
    CONTENT: "sizes, headers and folders of files",
    ROWS: "form of the ids and the order of rows",
}
_STRONG = 0.5
"""Sizes and ids may follow from content, or from how data was collected. They are a leak if they tell more than this
share of what guessing does not."""


def _by_a_classifier(opened: Sequence[PublicFile], truth: Truth, order: Sequence[str]) -> Iterator[str]:
    for attack in attacks(opened, truth, order):
        if attack.is_no_chance and (attack.kind == ORDER or attack.gain > _STRONG):
            yield (
                f"the {_SEEN[attack.kind]} tell the {attack.target}: a classifier that sees nothing else is right for "
                f"{attack.right} of {attack.rows}, guessing for {attack.guess}; it uses the {attack.above_all} most"
            )


def _in_ids(dataset: Dataset, truth: Truth, order: Sequence[str]) -> Iterator[str]:
    """Whether the form of the ids, or their order in the sample submission, tells."""
    ids = list(next(iter(truth.values())))
    features: dict[str, list[Any]] = {
        "length of the ids": [len(id) for id in ids],
        "first character of the ids": [id[:1] for id in ids],
        "last character of the ids": [id[-1:] for id in ids],
        "parity of the ids": [int("0" + re.sub(r"\D", "", id)) % 2 for id in ids],
    }
    parts = [re.split(r"[^A-Za-z0-9]+", id) for id in ids]
    if len(widths := {len(own) for own in parts}) == 1:
        features |= {f"part {k + 1} of the ids": [own[k] for own in parts] for k in range(widths.pop())}
    for name, true in truth.items():
        wanted = list(true.values())
        for what, values in features.items():
            if tells(values, wanted):
                yield f"the {what} tells the true values of {name!r}"
        if order and is_sorted([true[id] for id in order]):
            yield f"the order of the rows of {dataset.sample_submission.name} tells the true values of {name!r}"


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.rglob("*")) if path.is_file())


_CHANCE = 1e-6
_LOG_CHANCE = -math.log(_CHANCE)
"""One in a million: as many features are looked at, one in ten thousand runs finds what is not there."""
_NEARLY_ALL = 0.99
_MANY_PAIRS = 10
"""So many pairs of neighbours have nearly a normal distribution."""


def tells(values: Sequence[Hashable], truth: Sequence[Hashable]) -> bool:
    """Whether few different values stand for the true ones: each for one of them, in nearly all rows.

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
    """Whether values are the true ones in nearly all rows, or numbers that a straight line turns into them.

    >>> equals(["1.0", "3.0", "2"], ["1", "3", "2"]), equals(["3", "1", "2"], ["1", "3", "2"])
    (True, False)
    """
    if len(set(truth)) < 2 or len(set(values)) < 2:  # a constant equals a truth that nearly is one
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
    """Whether true values rise or fall from each row to the next, as numbers if they are, else as texts.

    >>> is_sorted(["a"] * 20 + ["b"] * 20), is_sorted(["a", "b"] * 20)
    (True, False)
    """
    if not _is_unlikely(truth):
        return False
    numbers = _numbers(truth)
    pairs = list(pairwise(truth if numbers is None else numbers.tolist()))
    return all(one <= other for one, other in pairs) or all(one >= other for one, other in pairs)


def neighbours_agree(keys: Sequence[int], truth: Sequence[str]) -> bool:
    """Whether rows whose keys are next to each other have equal true values far more often than by chance.

    Numbers of many values count as equal on the same side of their median, texts of many values where they are empty.
    Ties among the keys are ordered at random (with a fixed seed). The number of equal neighbours is compared with that
    of random orders, whose mean and variance are known; more than six standard deviations above it is no chance. Where
    all classes but one are rare, that number has no normal distribution; then it must be rarer than one in a million,
    too.

    >>> neighbours_agree(range(60), ["a"] * 20 + ["b"] * 20 + ["a"] * 20), neighbours_agree(range(60), ["a", "b"] * 30)
    (True, False)
    """
    if len(truth) < 30 or not _is_unlikely(classes := _classes(truth).tolist()):  # two of a hundred meet by chance
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
    if not same.sum() - mean > 6 * math.sqrt(abs(variance)):  # of one class: 0, but for rounding
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
    """How likely so many pairs or more are where they are rare: Poisson's distribution."""
    return 1 - sum(math.exp(k * math.log(expected) - expected - math.lgamma(k + 1)) for k in range(pairs))


def _chance_of_runs(n: int, own: int, runs: int) -> float:
    """How likely ``own`` of ``n`` rows stand in so few runs.

    >>> round(_chance_of_runs(100, 2, 1), 9)  # 99 of 4950 places
    0.02
    """
    orders = sum(math.comb(own - 1, r - 1) * math.comb(n - own + 1, r) for r in range(1, runs + 1))
    return orders / math.comb(n, own)


def _classes(truth: Sequence[str]) -> NDArray[np.intp]:
    """The number of each row's true value; of many values which half a number is in, or whether a text is empty."""
    values, codes = np.unique(np.asarray(truth), return_inverse=True)
    if len(values) <= len(truth) / 4:
        return codes
    numbers = _numbers(truth)
    if numbers is not None:
        return (numbers > np.median(numbers)).astype(np.intp)
    empty = np.array([not text for text in truth])
    return empty.astype(np.intp) if empty.any() else codes


def _is_unlikely(truth: Sequence[Hashable], values: int = 0) -> bool:
    """Whether there are so many orders of the true values that one of them is no chance.

    Each of so many other ``values`` may stand for any of them.
    """
    orders = math.lgamma(len(truth) + 1) - sum(math.lgamma(count + 1) for count in Counter(truth).values())
    return orders - values * math.log(len(set(truth))) > _LOG_CHANCE


def _numbers(texts: Sequence[str]) -> NDArray[np.float64] | None:
    try:
        numbers = np.array([float(text) for text in texts])
    except (TypeError, ValueError):
        return None
    return numbers if np.isfinite(numbers).all() else None
