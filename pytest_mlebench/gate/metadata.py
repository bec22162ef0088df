"""A classifier that sees only metadata: it must do no better than chance.

A unit of the test set is an id, or the files named after several ids. The classifier sees three kinds of metadata for
each unit: ``ORDER`` (times, inodes, modes, positions in directories and archives), ``CONTENT`` (sizes, headers, bytes
after the end, folders: these partly follow from the content), and ``ROWS`` (the form of ids, and the order of rows).

A forest of random trees is trained on one half of the units and predicts the true values of the other half, and vice
versa. If metadata reveals nothing, every order of the true values is equally likely. So the number of correct
predictions is compared with those for permuted true values: the test is exact, whatever the classifier does.
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
    """How well one kind of metadata predicts ``target``, a property of one column of the answers.

    ``right`` of ``rows`` predictions are right; the most frequent class would be right for ``guess``. ``p`` is the
    share of permuted true values that agree as well, for the better of both halves, and doubled since there are two.
    If none of 20,000 does, ``p`` uses Chernoff's bound of that share.
    """

    target: str
    kind: str
    right: int
    rows: int
    guess: int
    p: float
    main_feature: str

    @property
    def gain(self) -> float:
        """The improvement over guessing: from 0 (none) to 1 (always right)."""
        return max(0.0, (self.right - self.guess) / max(1, self.rows - self.guess))

    @property
    def is_significant(self) -> bool:
        """Whether fewer than one in a million permutations do as well."""
        return self.p < 1e-6


def attacks(
    opened: Sequence[PublicFile], truth: Mapping[str, Mapping[str, str]], rows: Sequence[str] = ()
) -> Iterator[Attack]:
    """Yield the result of each kind of metadata for each column of the answers.

    ``opened`` are the public files, ``truth`` has the true values of each column by id, and ``rows`` are the ids in the
    order of the sample submission. At most 2,000 units are used, drawn at random with a fixed seed, and at most the
    first 12 targets.
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
    targets = [(name, what, codes) for name in truth for what, codes in _targets(truth[name], members, names)]
    for column, what, classes in targets[:_MOST_TARGETS]:
        for kind, features in seen.items():
            if features.shape[1] and not (kind == CONTENT and what == _LENGTH):  # long texts have large files
                yield _attack(f"{what} of {column!r}", kind, features, classes)


def some_of(values: Sequence[str], most: int) -> list[str]:
    """Return at most ``most`` of the values, drawn with a fixed seed, in their original order."""
    chosen = np.random.RandomState(0).permutation(len(values))[:most]
    return [values[k] for k in np.sort(chosen)]


def named_after(id: str) -> Iterator[str]:
    """Yield possible names of an id's files: the id, also without suffix and folders, and the beginnings of the id.

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
    """Return the name of a file without folders and suffixes."""
    return str(name).rstrip("/").rpartition("/")[2].partition(".")[0]  # a path object for each cell takes minutes


def archive_of(entry: PublicFile) -> str:
    """Return the outermost archive that a file is in; empty if it is in none."""
    return next((part for part in PurePosixPath(entry.name).parts[:-1] if "." in part), "")


def _units(ids: Sequence[str], opened: Sequence[PublicFile]) -> dict[str, str]:
    """Return each id's unit: the name of its files; or its beginning, if ids share endings, like words; or the id.

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
    """Return the metadata of each unit's files by kind: one row per unit, one column of numbers per feature."""
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
        rows = pd.DataFrame.from_dict({unit: _noted(group, bool(archive)) for unit, group in files.items()}, "index")
        for what in rows.columns[:_MOST_FEATURES]:
            if rows[what].nunique(dropna=False) > 1:
                pure = what in _PURE or what.startswith("archive's ")
                where = f"{what} of {archive}" if archive else f"{what} of *{suffix}"
                seen[ORDER if pure else CONTENT][where] = _as_numbers(rows[what])
    return {kind: pd.DataFrame(columns, index=list(units)).fillna(-1.0) for kind, columns in seen.items()}


def _noted(files: Sequence[tuple[int, PublicFile]], is_archived: bool) -> dict[str, str | int | float]:
    """Return the metadata of a unit's files of one kind: that of the first file, but means of the system's numbers."""
    first = min(files, key=lambda file: file[1].name)[1]
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
    """Return ranks of the values, as numbers if possible, else as strings."""
    numbers = pd.to_numeric(values, errors="coerce")
    return (values.fillna("").astype(str) if numbers.isna().any() else numbers).rank(method="dense")


def _of_rows(opened: Sequence[PublicFile], first: Mapping[str, str], rows: Sequence[str]) -> pd.DataFrame:
    """Return the form of each unit's first id, and its position in the sample submission and other tables."""
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
    """Yield tables that have all known ids: their name, and their ids in the order of the rows."""
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
    """Yield the classes to predict of a column: values; or numbers above the median; or empty, or long, strings."""
    by_unit = [[true[id] for id in members[name]] for name in names]
    numbers = pd.to_numeric(pd.Series([text for texts in by_unit for text in texts]), errors="coerce")
    means = numbers.groupby(np.repeat(np.arange(len(by_unit)), list(map(len, by_unit)))).mean()
    modes = pd.Series(list(map(mode, by_unit)))
    values = modes if means.isna().any() else means.astype(str)
    found: dict[str, pd.Series[Any]]
    if values.nunique() <= len(values) / 4:
        found = {"value": values}
    elif (numeric := pd.to_numeric(values, errors="coerce")).notna().all():
        found = {"half": numeric > numeric.median()}
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
        # Neighbouring rows may be alike, such as frames of a recording: what only a few share must not count.
        least = max(5, len(train) // 20) if kind == ROWS else 1
        forest = ExtraTreesClassifier(_TREES, max_features=None, min_samples_leaf=least, random_state=0)
        predicted = forest.fit(x[train], classes[train]).predict(x[test])
        right += int((predicted == classes[test]).sum())
        p = min(p, 2 * _p_value(predicted, classes[test]))
        with np.errstate(invalid="ignore"):  # if no split gains anything
            weights += np.nan_to_num(forest.feature_importances_)
    guess = int(np.bincount(classes).max())
    main_feature = str(features.columns[int(weights.argmax())])
    return Attack(target, kind, right, len(classes), guess, p, main_feature)


def _p_value(predicted: Classes, true: Classes) -> float:
    """Return the share of permuted true values that agree as well; drawn until ten do (Besag, Clifford 1991)."""
    rng = np.random.default_rng(0)
    matches, drawn, as_good = int((predicted == true).sum()), 0, 0
    while drawn < _DRAWS and as_good < _ENOUGH:
        orders = rng.permuted(np.broadcast_to(true, (_BATCH, len(true))), axis=1)
        as_good += int(((orders == predicted).sum(axis=1) >= matches).sum())
        drawn += _BATCH
    return (as_good + 1) / (drawn + 1) if as_good else min(1 / (drawn + 1), _bound(predicted, true))


def _bound(predicted: Classes, true: Classes) -> float:
    """Return Chernoff's bound of the probability that as many agree by chance, if this is more than on average."""
    n, share = len(true), float((predicted == true).mean())
    mean = sum(float((predicted == k).mean() * (true == k).mean()) for k in np.unique(predicted))
    rest = 0.0 if share == 1 else (1 - share) * math.log((1 - share) / (1 - mean))
    return math.exp(-n * (share * math.log(share / mean) + rest))
