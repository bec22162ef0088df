"""Forecasts later values of subjects whose first measurement is known, and the uncertainty of the forecasts."""

from __future__ import annotations

import logging
import re

import numpy as np
import pandas as pd
from tables import SEED, Source

MIN_PAIRS = 50
MAX_PAIRS = 20_000
FIRST = 2
"""Number of measurements of each subject that serve as the first one in training."""
SURENESS = r"confidence|sigma|std|uncertain|deviation"

log = logging.getLogger("baseline")


def forecasts(sample: pd.DataFrame, tables: list[Source]) -> pd.DataFrame | None:
    """Return the sample submission with forecasts; None if it does not ask for values of subjects at given times.

    Its id must join a subject and a whole number for the time, which are columns of a test and a training table.
    The training table must have values at several times. One more target may be the uncertainty.
    """
    id = sample.columns[0]
    parts = sample[id].str.extract(r"^(.+?)_(-?\d+)$")
    unsure = [name for name in sample.columns[1:] if re.search(SURENESS, name, re.I)]
    targets = [name for name in sample.columns[1:] if name not in unsure]
    if parts.isna().any(axis=None) or not targets or len(unsure) > 1:
        return None
    for test in (table for table in tables if "test" in table.name):
        asked = test.read()
        who = next((name for name in asked if parts[0].isin(set(asked[name])).all()), "")
        if not who or asked[who].duplicated().any() or len(asked) == len(sample):
            continue
        when = next((name for name in asked if (asked[who] + "_" + asked[name]).isin(sample[id]).mean() > 0.9), "")
        for train in (table for table in tables if when and table != test):
            if {who, when, *targets} <= set(train.columns()) and set(targets) <= set(asked):
                known = train.read(as_text=[who])
                first = test.read(as_text=[who]).set_index(who).loc[parts[0]].reset_index()
                wanted = parts[1].astype(float).to_numpy()
                return _forecast(sample, known, first, who, when, wanted, targets, unsure)
    return None


def _forecast(
    sample: pd.DataFrame, known: pd.DataFrame, first: pd.DataFrame, who: str, when: str,
    wanted: np.ndarray, targets: list[str], unsure: list[str],
) -> pd.DataFrame | None:  # fmt: skip
    from sklearn.base import clone
    from sklearn.ensemble import HistGradientBoostingRegressor
    from sklearn.linear_model import RidgeCV
    from sklearn.model_selection import GroupKFold, cross_val_predict
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    before, after = _pairs(known.dropna(subset=[who, when, *targets]), who, when)
    if len(before) < MIN_PAIRS:
        return None
    columns = [name for name in known if name in first and name != who]
    rows, new = _features(before[columns], first[columns], after[when].to_numpy(float), wanted, when)
    groups, table = before[who].to_numpy(), sample.copy()
    models = {
        "linear model": make_pipeline(StandardScaler(), RidgeCV(np.logspace(-1, 5, 13))),
        "gradient boosting": HistGradientBoostingRegressor(learning_rate=0.05, max_leaf_nodes=8, random_state=SEED),
    }
    for target in targets:
        start = before[target].to_numpy(float)
        change = after[target].to_numpy(float) - start
        held = {
            name: cross_val_predict(own, rows, change, groups=groups, cv=GroupKFold(4)) for name, own in models.items()
        }
        errors = {name: float(np.abs(change - own).mean()) for name, own in held.items()}
        for name, error in errors.items():
            log.info("%s of %s: %.4f off in cross-validation", name, target, error)
        best = min(errors, key=lambda name: errors[name])
        table[target] = first[target].to_numpy(float) + clone(models[best]).fit(rows, change).predict(new)
        for name in unsure:
            spread = HistGradientBoostingRegressor(max_iter=40, max_leaf_nodes=6, random_state=SEED)
            off = spread.fit(rows, np.abs(change - held[best])).predict(new)
            table[name] = np.sqrt(2) * np.maximum(off, 0.2 * errors[best])
    return table


def _pairs(known: pd.DataFrame, who: str, when: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Pair a first measurement with another one of the same subject; each pair is a row of both tables."""
    known = known.sort_values([who, when], kind="stable").reset_index(drop=True)
    place = known.groupby(who).cumcount()
    starts = known.index[place < FIRST]
    sizes = known.groupby(who)[who].transform("size")
    found = [
        (start, other)
        for start in starts
        for other in range(start - place[start], start - place[start] + sizes[start])
        if other != start
    ]
    chosen = np.array(found, dtype=int).reshape(-1, 2)
    if len(chosen) > MAX_PAIRS:
        chosen = chosen[np.random.default_rng(SEED).permutation(len(chosen))[:MAX_PAIRS]]
    return known.loc[chosen[:, 0]].reset_index(drop=True), known.loc[chosen[:, 1]].reset_index(drop=True)


def _features(
    before: pd.DataFrame, first: pd.DataFrame, times: np.ndarray, wanted: np.ndarray, when: str
) -> tuple[np.ndarray, np.ndarray]:
    """Return features: the first measurement, the time until the other one, and the products of both."""
    both = pd.concat([before, first], ignore_index=True)
    later = np.concatenate([times, wanted]) - both[when].to_numpy(float)
    text = [name for name in both if not pd.api.types.is_numeric_dtype(both[name])]
    numbers = pd.get_dummies(both.drop(columns=[name for name in text if both[name].nunique() > 20]), dtype=float)
    numbers = numbers.fillna(numbers.median())
    scaled = (numbers - numbers.mean()) / (numbers.std() + 1e-9)
    made = np.column_stack([scaled, later, np.abs(later), scaled.mul(later, axis=0)])
    return made[: len(before)], made[len(before) :]
