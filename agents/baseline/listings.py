"""Reads text files with a line per recording: its number, then measurements, or the classes that occur in it."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import pandas as pd
from tables import SEED, to_numbers

STEPS = (100, 1000, 10)
UNKNOWN = "?"
MAX_BYTES = 50_000_000

log = logging.getLogger("baseline")


def classes_of_recordings(data: Path, sample: pd.DataFrame) -> pd.DataFrame | None:
    """Return the sample with the probability of each class in each recording; None if no such file has the labels.

    An id of the sample is the number of a recording times 100 (or 10, or 1000) plus the number of a class.
    """
    id, *targets = sample.columns
    ids = to_numbers(sample[id])
    if len(targets) != 1 or ids.isna().any():
        return None
    files = {path: _lines(path) for path in sorted(data.rglob("*.txt")) if path.stat().st_size <= MAX_BYTES}
    listed = next((path for path, lines in files.items() if any(UNKNOWN in own[1:] for own in lines)), None)
    if listed is None:
        return None
    asked = [int(own[0]) for own in files[listed] if UNKNOWN in own]
    known = {int(own[0]): {int(value) for value in own[1:]} for own in files[listed] if UNKNOWN not in own}
    fits = [step for step in STEPS if set(ids // step) <= set(asked) and len(set(ids % step)) < step]
    if not fits or not known or max(map(len, known.values())) < 2:
        return None
    step = fits[0]
    classes = sorted(set((ids % step).astype(int)))
    numbers = _measured([lines for path, lines in files.items() if path != listed], [*known, *asked])
    if numbers.empty:
        return None
    log.info("%d numbers of %d recordings with labels in %s", numbers.shape[1], len(known), listed.name)
    truth = np.array([[kind in own for kind in classes] for own in known.values()], dtype=float)
    shares = _shares(numbers.loc[list(known)], truth, numbers.loc[asked])
    table = pd.DataFrame(shares, index=asked, columns=classes)
    found = [table.at[recording, kind] for recording, kind in zip(ids // step, (ids % step).astype(int), strict=True)]
    return sample.assign(**{targets[0]: np.round(found, 6)})


def _lines(path: Path) -> list[list[str]]:
    """Return the fields of the lines that begin with a whole number."""
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    fields = [[value.strip() for value in line.split(",") if value.strip()] for line in lines]
    return [own for own in fields if own and own[0].isdecimal()]


def _measured(files: list[list[list[str]]], wanted: list[int]) -> pd.DataFrame:
    """Return the numbers in the files for each recording; for several lines, their count, mean, maximum and minimum."""
    made = []
    for k, lines in enumerate(files):
        rows = pd.DataFrame([own for own in lines if len(own) == len(lines[0])])
        rows = rows.apply(to_numbers).dropna(axis=1)
        if (
            rows.shape[1] < 2
            or 0 not in rows
            or rows[0].isin(wanted).mean() < 0.9
            or rows[0].nunique() < len(wanted) / 2
        ):
            continue
        groups = rows.groupby(0)
        parts = [groups.mean()] if not rows[0].duplicated().any() else [groups.mean(), groups.max(), groups.min()]
        parts = [part.add_prefix(f"{k} {place} ") for place, part in enumerate(parts)]
        made.append(pd.concat([*parts, groups.size().rename(f"{k} lines")], axis=1).reindex(wanted))
    found = pd.concat(made, axis=1) if made else pd.DataFrame()
    found = found.fillna(found.median())
    return found.loc[:, found.nunique() > 2] if len(found) else found


def _shares(rows: pd.DataFrame, truth: np.ndarray, new: pd.DataFrame) -> np.ndarray:
    """Predict the probability of each class for the new rows, as the mean of trees and a linear model."""
    from sklearn.ensemble import ExtraTreesRegressor
    from sklearn.linear_model import RidgeCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    linear = make_pipeline(StandardScaler(), RidgeCV(np.logspace(0, 5, 11)))
    trees = ExtraTreesRegressor(500, min_samples_leaf=2, max_features=0.3, random_state=SEED)
    found = [np.asarray(model.fit(rows, truth).predict(new)) for model in (linear, trees)]
    return np.mean(found, axis=0).clip(0, 1)
