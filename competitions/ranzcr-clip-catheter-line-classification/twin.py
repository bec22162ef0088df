from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import softmax

from pytest_mlebench.authoring.worlds.images import grey, jpeg
from pytest_mlebench.authoring.worlds.labels import by_size, draw_classes, random_names
from pytest_mlebench.authoring.worlds.scans import chest, tube, uid

from .synthetic import LABELS

SIDE, LENGTH = 64, 3200  # pixels, and bytes of a file; real radiographs are about 3000 pixels wide
KINDS = {  # frequency; course as points (x, y), in shares of the picture; depth of the tip by label
    "ETT": (0.45, [(0.5, -0.05), (0.51, 0.2), (0.5, 0.58)], {"Normal": 0.3, "Borderline": 0.6, "Abnormal": 0.9}),
    "NGT": (
        0.5,
        [(0.46, -0.05), (0.48, 0.4), (0.53, 0.7), (0.66, 0.86), (0.7, 1.3)],
        {"Abnormal": 0.3, "Borderline": 0.5, "Normal": 0.68, "Incompletely Imaged": 0.95},
    ),
    "CVC": (
        0.75,
        [(0.12, 0.28), (0.3, 0.2), (0.43, 0.26), (0.45, 0.6)],
        {"Abnormal": 0.35, "Borderline": 0.6, "Normal": 0.85},
    ),
}


def make(raw: Path, rng: np.random.Generator, size: str) -> dict[str, pd.DataFrame]:
    n, others = by_size(size, (600, 4), (2200, 10), (6000, 20))
    # the world: how sharply readers distinguish positions, and where they set the limits between them
    sharp, shift = rng.uniform(6, 9), dict(zip(KINDS, rng.normal(0, 0.03, len(KINDS)), strict=True))
    ids = [uid(rng) for _ in range(n + others)]
    table = pd.DataFrame(0, index=pd.Index(ids[:n], name="StudyInstanceUID"), columns=LABELS)
    guesses = {name: table.astype(float) for name in ("simple", "ceiling")}
    pictures = [chest(rng, SIDE) for _ in ids]
    drawn = []
    for kind, (often, course, tips) in KINDS.items():
        names, places = [f"{kind} - {label}" for label in tips], np.array(list(tips.values())) + shift[kind]
        depth = rng.uniform(0.2, 1, n + others)
        chances = softmax(-sharp * 8 * (depth[:n, None] - places) ** 2, axis=1)
        there = rng.random(n + others) < often
        table.loc[there[:n], names] = np.eye(len(names), dtype=int)[draw_classes(chances, rng)][there[:n]]
        seen, usual = there[:n, None], chances.mean(axis=0)
        guesses["ceiling"][names] = np.where(seen, 0.98 * chances, 0) + 0.01
        # without measuring, one only sees that there is a tube, and roughly how deep it is
        guesses["simple"][names] = np.where(seen, 0.6 * usual + 0.25 * (np.argsort(places) > 0) * depth[:n, None], 0.01)
        for k in np.flatnonzero(there):
            points = _course(course, depth[k], rng)
            pictures[k] = pictures[k] + rng.uniform(0.8, 1.3) * tube((SIDE, SIDE), points, 0.7)
            if k < n and rng.random() < 0.3:
                label = table.columns[table.columns.isin(names) & (table.iloc[k] == 1)][0]
                drawn.append((ids[k], label, str(np.rint(points * 3000).astype(int).tolist())))
    swan = rng.random(n) < 0.12  # a catheter that winds through the heart
    for k in np.flatnonzero(swan):
        points = _course([(0.43, 0.2), (0.45, 0.62), (0.56, 0.72), (0.58, 0.55), (0.48, 0.5)], 1, rng)
        pictures[k] = pictures[k] + tube((SIDE, SIDE), points, 0.7)
    table["Swan Ganz Catheter Present"] = (swan ^ (rng.random(n) < 0.01)).astype(int)
    for name, chance in (("simple", 0.5), ("ceiling", 0.99)):
        guesses[name]["Swan Ganz Catheter Present"] = np.where(swan, chance, 0.01)

    for k, picture in enumerate(pictures):  # leads of monitors look like tubes
        lead = tube((SIDE, SIDE), rng.uniform(0.05, 0.95, (2, 2)), 0.5) * (rng.random() < 0.4)
        path = raw / ("train" if k < n else "test") / f"{ids[k]}.jpg"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(jpeg(grey(picture + 0.7 * lead), block=LENGTH))
    people = np.array(random_names(rng, n // 8, 9))
    table.assign(PatientID=rng.choice(people, n)).reset_index().to_csv(raw / "train.csv", index=False)
    annotations = pd.DataFrame(drawn, columns=["StudyInstanceUID", "label", "data"])
    annotations.sample(frac=1, random_state=int(rng.integers(2**31))).to_csv(raw / "train_annotations.csv", index=False)
    sample = pd.DataFrame({"StudyInstanceUID": ids[n:], **dict.fromkeys(LABELS, 0)})
    sample.to_csv(raw / "sample_submission.csv", index=False)
    return {name: guess.round(5) for name, guess in guesses.items()}


def _course(points: list[tuple[float, float]], depth: float, rng: np.random.Generator) -> np.ndarray:
    """Return points (x, y) of a course down to a depth, slightly displaced."""
    steps, ends = np.linspace(0, depth * (len(points) - 1), 12), np.arange(len(points))
    line = np.column_stack([np.interp(steps, ends, column) for column in np.transpose(points)])
    return line + rng.normal(0, 0.008, 2) + np.cumsum(rng.normal(0, 0.002, line.shape), axis=0)
