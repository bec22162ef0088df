"""Answers questions about the parts of a stack of scans, such as C1 to C7, with one model of the slices of a part."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import numpy as np
import pandas as pd
from readings import SCANS, natural, plane_numbers, read_scan
from tables import SEED, Source

PART = re.compile(r"([A-Za-z]+)(\d+)")
LEAST_PARTS, MAX_SCANS, SLICES, SECTORS, FOLDS = 3, 1000, 4, 12, 5
"""SLICES is the number of slices that are read per part."""
WEIGHTS = re.compile(r"y = 1 \| y = 0 \|.*?\|\s*(\d+)\s*\|\s*(\d+)\s*\|\s*$", re.S | re.M)

log = logging.getLogger("baseline")


def slice_numbers(plane: np.ndarray) -> np.ndarray:
    """Return the features of a slice, including its brightness centre and the brightness in sectors around it."""
    bright = (plane - np.median(plane)).clip(0) + 1e-9
    y, x = np.indices(plane.shape) / max(plane.shape)
    down, across = (bright * y).sum() / bright.sum(), (bright * x).sum() / bright.sum()
    sector = ((np.arctan2(y - down, x - across) / (2 * np.pi) + 0.5) * SECTORS).astype(int) % SECTORS
    around = np.bincount(sector.ravel(), plane.ravel(), SECTORS) / (np.bincount(sector.ravel(), minlength=SECTORS) + 1)
    levels = np.quantile(plane, (0.05, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99))
    return np.concatenate([plane_numbers(plane), np.sort(around), levels, [down, across, plane.mean()]])


def stack_numbers(folder: Path, parts: int) -> np.ndarray:
    """Return each part's mean and spread over its slices, also relative to the stack, shape (parts, numbers)."""
    files = sorted((path for path in folder.rglob("*") if path.suffix.lower() in SCANS), key=natural)
    found = []
    for first, last in zip(*[np.linspace(0, len(files), parts + 1)[k : parts + k] for k in (0, 1)], strict=True):
        chosen = np.unique(np.linspace(first, max(first, last - 1), SLICES).astype(int))
        own = np.array([slice_numbers(read_scan(files[k].read_bytes())) for k in chosen])
        found.append(np.concatenate([own.mean(axis=0), np.ptp(own, axis=0)]))
    whole = np.array(found)
    return np.concatenate([whole, whole - whole.mean(axis=0), np.eye(parts)], axis=1)


def part_submission(data: Path, sample: pd.DataFrame, tables: list[Source], description: str) -> pd.DataFrame | None:
    """Predict the probability for each part that is asked for; None if no table asks for parts of stacks."""
    id = sample.columns[0]
    folders = {path.parent.name: path.parent for path in data.rglob("*") if path.suffix.lower() in SCANS}
    if not folders or sample.shape[1] != 2:
        return None
    for test in (table for table in tables if "test" in table.name and id in table.columns()):
        rows = test.read().drop_duplicates(id).set_index(id).reindex(sample[id])
        for train in (table for table in tables if "test" not in table.name):
            answers = train.read()
            keys = [name for name in rows if name in answers]
            asked = [name for name in rows if name not in answers and set(rows[name]) <= set(answers)]
            if not keys or not asked:
                continue
            parts = [name for name in rows[asked[0]].unique() if PART.fullmatch(name)]
            if len({name.rstrip("0123456789") for name in parts}) != 1 or len(parts) < LEAST_PARTS:
                continue
            answers = answers[answers[keys[0]].isin(folders.keys())]
            if len(answers) < 2 * FOLDS or not rows[keys[0]].isin(folders.keys()).all():
                continue
            answers = answers.sample(min(len(answers), MAX_SCANS), random_state=SEED).set_index(keys[0])
            found = _shares(answers, list(rows[keys[0]].unique()), sorted(parts, key=_number), folders, description)
            chosen = [found.at[key, name] for key, name in zip(rows[keys[0]], rows[asked[0]], strict=True)]
            return sample.assign(**{sample.columns[1]: chosen})
    return None


def _number(name: str) -> int:
    return int(re.sub(r"\D", "", name))


def _shares(
    answers: pd.DataFrame, tests: list[str], parts: list[str], folders: dict[str, Path], description: str
) -> pd.DataFrame:
    """Predict the probability of each part, and of other columns from the parts' maximum and sum, for the test."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GroupKFold

    known = np.concatenate([stack_numbers(folders[key], len(parts)) for key in answers.index])
    unseen = np.concatenate([stack_numbers(folders[key], len(parts)) for key in tests])
    truth = answers[parts].astype(int).to_numpy().ravel()
    held_out, stacks = np.zeros(len(truth)), np.repeat(np.arange(len(answers)), len(parts))
    for rows, others in GroupKFold(FOLDS).split(known, truth, stacks):
        held_out[others] = _fitted(known[rows], truth[rows], known[others])
    shares = _fitted(known, truth, unseen)
    log.info("%d stacks for training, %d for the test, parts %s", len(answers), len(tests), ", ".join(parts))
    found = pd.DataFrame(shares.reshape(-1, len(parts)), tests, parts)
    for name in answers.columns.difference(parts):
        labels = answers[name]
        if set(labels) == {"0", "1"}:
            model = LogisticRegression(C=1.0).fit(_summary(held_out, len(parts)), labels)
            found[name] = model.predict_proba(_summary(shares, len(parts)))[:, 1]
    match = WEIGHTS.search(description)
    weight = int(match[1]) / int(match[2]) if match else 1.0  # of ones relative to zeros
    return weight * found / (1 + (weight - 1) * found)


def _summary(shares: np.ndarray, parts: int) -> np.ndarray:
    rows = shares.reshape(-1, parts)
    return np.column_stack([rows.max(axis=1), np.log(1 - rows).sum(axis=1)])


def _fitted(known: np.ndarray, truth: np.ndarray, unseen: np.ndarray) -> np.ndarray:
    """Return the mean of the probabilities of a linear model and a forest."""
    from sklearn.ensemble import ExtraTreesClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    linear = make_pipeline(StandardScaler(), LogisticRegression(C=0.003, max_iter=300))
    forest = ExtraTreesClassifier(150, min_samples_leaf=3, max_features=0.2, random_state=SEED)
    shares = [model.fit(known, truth).predict_proba(unseen)[:, 1] for model in (linear, forest)]
    return np.asarray(np.mean(shares, axis=0).clip(0.002, 0.998))
