"""A classifier that sees metadata alone: it must do no better than chance.

What it sees of each unit of the test, which is an id or the files that are named after several ids, is of three kinds:
``ORDER`` (times, inodes, modes, places in directories and archives), ``CONTENT`` (sizes, headers, bytes behind the end,
folders: these follow from the content in part), and ``ROWS`` (the form of ids, and the order of rows).

One half of the units trains a forest of random trees, which predicts the true values of the other half; then the other
way round. Where metadata says nothing, every order of the other half's true values is equally likely. So the number of
right predictions is compared with those of permuted true values: the test is exact, whatever the classifier does.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from statistics import mode
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pytest_mlebench.gate.public_files import PublicFile, metadata, table

ORDER, CONTENT, ROWS = "order", "content", "rows"
_MOST_UNITS, _MOST_TARGETS, _MOST_FEATURES = 2000, 12, 300
_LEAST_UNITS, _LEAST_OTHERS, _TREES = 8, 3, 30
_LENGTH = "length"
_DRAWS, _BATCH, _ENOUGH = 20_000, 500, 10
_ALWAYS_NOTED = (
    "time of change",
    "time of the inode's change",
    "time of birth",
    "inode",
    "mode",
    "owner",
    "links",
    "extended attributes",
    "place in the directory",
)
_PURE = (*_ALWAYS_NOTED, "place in the archive")
_END = re.compile(r"(.+)[^A-Za-z0-9]+([A-Za-z0-9]+)$")
_REPEATED = 0.75
_CUT = re.compile(r"[^A-Za-z0-9]+")
Classes = NDArray[np.intp]


@dataclass(frozen=True)
class Attack:
    """How well one kind of metadata predicts what one column of the answers says: ``target``.

    ``right`` of ``rows`` predictions are right, ``guess`` is the number that the most frequent class would get. ``p``
    is the share of permuted true values that come out as well, times two as either half is predicted from the other.
    Where none of 20,000 does, it is Chernoff's bound of that share.
    """

    target: str
    kind: str
    right: int
    rows: int
    guess: int
    p: float
    above_all: str

    @property
    def gain(self) -> float:
        """How much of the way from guessing to certainty: 0 to 1."""
        return max(0.0, (self.right - self.guess) / max(1, self.rows - self.guess))

    @property
    def is_no_chance(self) -> bool:
        """Whether fewer than one in a million permutations do as well."""
        return self.p < 1e-6


def attacks(
    opened: Sequence[PublicFile], truth: Mapping[str, Mapping[str, str]], rows: Sequence[str] = ()
) -> Iterator[Attack]:
    """The result of each kind of metadata on each column of the answers.

    ``opened`` are the public files, ``truth`` has the true values of each column by id, ``rows`` are the ids in the
    order of the sample submission. Of more than 2,000 units some are drawn, of more than 12 targets the first are
    taken. Draws have fixed seeds.
    """
    ids = list(next(iter(truth.values()), {}))
    units = _units(ids, opened)
    members: dict[str, list[str]] = {}
    for id, unit in units.items():
        members.setdefault(unit, []).append(id)
    if len(members) < _LEAST_UNITS:
        return
    names = some_of(sorted(members), _MOST_UNITS)
    seen = {
        **_of_files(opened, {unit: unit for unit in names}),
        ROWS: _of_rows(opened, {unit: members[unit][0] for unit in names}, rows),
    }
    targets = [(column, what, own) for column in truth for what, own in _targets(truth[column], members, names)]
    for column, what, classes in targets[:_MOST_TARGETS]:
        for kind, features in seen.items():
            if features.shape[1] and not (kind == CONTENT and what == _LENGTH):  # which long contents may well have
                yield _attack(f"{what} of {column!r}", kind, features, classes)


def some_of(values: Sequence[str], most: int) -> list[str]:
    """So many of them or all, drawn with a fixed seed, in their order."""
    chosen = np.random.RandomState(0).permutation(len(values))[:most]
    return [values[k] for k in np.sort(chosen)]


def named_after(id: str) -> Iterator[str]:
    """What a file may be called that belongs to an id: the id, without a suffix or folders, and what it begins with.

    >>> list(named_after("7_3")), list(named_after("test/7.png"))
    (['7_3', '7'], ['test/7.png', '7', 'test/7', 'test'])
    """
    yield id
    if (stem := stem_of(id)) != id:
        yield stem
    for cut in reversed(list(_CUT.finditer(id))):
        if cut.start():
            yield id[: cut.start()]


def stem_of(name: object) -> str:
    """The name of a file without folders and suffixes."""
    return str(name).rstrip("/").rpartition("/")[2].partition(".")[0]  # a path object for each cell takes minutes


def archive_of(entry: PublicFile) -> str:
    """The outermost archive that a file lies in; empty if it lies in none."""
    return next((part for part in PurePosixPath(entry.name).parts[:-1] if "." in part), "")


def _units(ids: Sequence[str], opened: Sequence[PublicFile]) -> dict[str, str]:
    """What names the files of each id; else what ids begin with whose ends repeat, as of a sentence's words; else ids.

    Rows of one sentence or molecule depend on each other, so that they cannot be permuted one by one.
    """
    names = {stem_of(part) for entry in opened for part in PurePosixPath(entry.name).parts}
    found = {id: next((name for name in named_after(id) if name in names), id) for id in ids}
    if len(set(found.values())) >= _LEAST_UNITS and any(id in names for id in found.values()):
        return found
    parts = {id: _END.match(id) for id in ids}
    ends = {match[2] for match in parts.values() if match}
    if all(parts.values()) and len(ends) < _REPEATED * len(ids):
        return {id: match[1] for id, match in parts.items() if match}
    return {id: id for id in ids}


def _of_files(opened: Sequence[PublicFile], units: Mapping[str, str]) -> dict[str, pd.DataFrame]:
    """What is said of each unit's files: a row for each unit, a column of numbers for each feature."""
    named: dict[tuple[str, str], dict[str, list[tuple[int, PublicFile]]]] = {}
    for place, entry in enumerate(opened):
        parts = reversed(PurePosixPath(entry.name).parts)
        unit = next((stem for part in parts if (stem := stem_of(part)) in units), None)
        if unit is not None:
            named.setdefault((archive_of(entry), entry.suffix), {}).setdefault(unit, []).append((place, entry))
    seen: dict[str, dict[str, pd.Series]] = {ORDER: {}, CONTENT: {}}
    for (archive, suffix), files in named.items():
        if len(files) < max(8, len(units) / 2):
            continue
        said = pd.DataFrame.from_dict({unit: _said(own, bool(archive)) for unit, own in files.items()}, orient="index")
        for what in said.columns[:_MOST_FEATURES]:
            if said[what].nunique(dropna=False) > 1:
                pure = what in _PURE or what.startswith("archive's ")
                where = f"{what} of {archive}" if archive else f"{what} of *{suffix}"
                seen[ORDER if pure else CONTENT][where] = _as_numbers(said[what])
    return {kind: pd.DataFrame(columns, index=list(units)).fillna(-1.0) for kind, columns in seen.items()}


def _said(files: Sequence[tuple[int, PublicFile]], is_archived: bool) -> dict[str, str | int | float]:
    """What is said of a unit's files of one kind: of the first, and the means of numbers that the system notes."""
    first = min(files, key=lambda own: own[1].name)[1]
    found: dict[str, str | int | float] = {**metadata(first)}
    found["folder"] = str(PurePosixPath(first.name).parent.name)
    found["files"] = len(files)
    found["size in bytes"] = sum(int(dict(entry.noted).get("size in bytes", len(entry.content))) for _, entry in files)
    if is_archived:
        found["place in the archive"] = float(np.mean([place for place, _ in files]))
    for what in _ALWAYS_NOTED:
        if what in found:
            found[what] = sum(int(dict(entry.noted)[what]) for _, entry in files) // len(files)
    return found


def _as_numbers(values: pd.Series) -> pd.Series:
    """Ranks of numbers, else of texts."""
    numbers = pd.to_numeric(values, errors="coerce")
    return (values.fillna("").astype(str) if numbers.isna().any() else numbers).rank(method="dense")


def _of_rows(opened: Sequence[PublicFile], first: Mapping[str, str], rows: Sequence[str]) -> pd.DataFrame:
    """The form of each unit's first id, and its place in the sample submission and other tables."""
    ids = pd.Series(first)
    columns: dict[str, pd.Series] = {
        "order of the ids": ids.rank(),
        "length of the ids": ids.str.len(),
        "last digit of the ids": pd.to_numeric(ids.str.extract("([0-9])[^0-9]*$")[0]).fillna(-1),
    }
    for place in (0, 1, 2, -1, -2, -3):
        columns[f"character {place} of the ids"] = ids.str[place].map(ord, na_action="ignore").fillna(-1)
    numbers = pd.to_numeric(ids.str.extract("([0-9]+)[^0-9]*$")[0]).fillna(-1)
    columns["number in the ids"], columns["parity of the ids"] = numbers.rank(), numbers % 2
    known = set(ids)
    for name, listed in [("the sample submission", list(rows)), *_listings(opened, known)]:
        places = {id: place for place, id in reversed(list(enumerate(listed)))}
        if known <= places.keys():
            columns[f"place in {name}"] = ids.map(places)
    found = pd.DataFrame(columns).astype(float)
    return found.loc[:, found.nunique() > 1]


def _listings(opened: Sequence[PublicFile], known: set[str]) -> Iterator[tuple[str, list[str]]]:
    """The ids of tables in the order of their rows."""
    some = [id.encode() for id in some_of(sorted(known), 20)]
    for entry in opened:
        if all(id in entry.content for id in some):
            rows = table(entry)
            for column in () if rows is None else rows.columns:
                if known <= set(rows[column]):  # type: ignore[index]
                    yield entry.name, rows[column].tolist()  # type: ignore[index]
                    break


def _targets(
    true: Mapping[str, str], members: Mapping[str, list[str]], names: Sequence[str]
) -> Iterator[tuple[str, Classes]]:
    """What is to be predicted of one column: its value; the half of a number; emptiness and length of a text."""
    own = [[true[id] for id in members[name]] for name in names]
    numbers = pd.to_numeric(pd.Series([text for texts in own for text in texts]), errors="coerce")
    means = numbers.groupby(np.repeat(np.arange(len(own)), list(map(len, own)))).mean()
    usual = pd.Series(list(map(mode, own)))
    values = usual if means.isna().any() else means.astype(str)
    found: dict[str, pd.Series[Any]]
    if values.nunique() <= len(values) / 4:
        found = {"value": values}
    elif (shown := pd.to_numeric(values, errors="coerce")).notna().all():
        found = {"half": shown > shown.median()}
    else:
        found = {"emptiness": values == "", _LENGTH: values.str.len() > values.str.len().median()}
    for what, classes in found.items():
        codes = np.unique(classes.to_numpy().astype(str), return_inverse=True)[1].astype(np.intp)
        if len(codes) - np.bincount(codes).max() >= _LEAST_OTHERS:
            yield what, codes


def _attack(target: str, kind: str, features: pd.DataFrame, classes: Classes) -> Attack:
    from sklearn.ensemble import ExtraTreesClassifier

    halves = np.array_split(np.random.RandomState(1).permutation(len(classes)), 2)
    x = features.to_numpy(dtype=np.float32)
    right, p, weights = 0, 1.0, np.zeros(x.shape[1])
    for train, test in (halves, halves[::-1]):
        # Neighbouring rows may well be alike, as frames of a recording are: what a few of them share does not count.
        least = max(5, len(train) // 20) if kind == ROWS else 1
        forest = ExtraTreesClassifier(_TREES, max_features=None, min_samples_leaf=least, random_state=0)
        predicted = forest.fit(x[train], classes[train]).predict(x[test])
        right += int((predicted == classes[test]).sum())
        p = min(p, 2 * _p_value(predicted, classes[test]))
        with np.errstate(invalid="ignore"):  # no split gains anything
            weights += np.nan_to_num(forest.feature_importances_)
    guess = int(np.bincount(classes).max())
    above_all = str(features.columns[int(weights.argmax())])
    return Attack(target, kind, right, len(classes), guess, p, above_all)


def _p_value(predicted: Classes, true: Classes) -> float:
    """The share of orders of the true values that agree as well; drawn until ten of them do (Besag, Clifford 1991)."""
    rng = np.random.default_rng(0)
    seen, drawn, as_good = int((predicted == true).sum()), 0, 0
    while drawn < _DRAWS and as_good < _ENOUGH:
        orders = rng.permuted(np.broadcast_to(true, (_BATCH, len(true))), axis=1)
        as_good += int(((orders == predicted).sum(axis=1) >= seen).sum())
        drawn += _BATCH
    return (as_good + 1) / (drawn + 1) if as_good else min(1 / (drawn + 1), _bound(predicted, true))


def _bound(predicted: Classes, true: Classes) -> float:
    """Chernoff's bound of the probability that as many agree by chance; more do than on average."""
    n, share = len(true), float((predicted == true).mean())
    mean = sum(float((predicted == k).mean() * (true == k).mean()) for k in np.unique(predicted))
    rest = 0.0 if share == 1 else (1 - share) * math.log((1 - share) / (1 - mean))
    return math.exp(-n * (share * math.log(share / mean) + rest))
