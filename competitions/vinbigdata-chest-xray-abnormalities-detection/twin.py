from pathlib import Path

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.worlds.images import WHOLE, ellipse, prediction, redrawn, smooth_noise
from pytest_mlebench.authoring.worlds.labels import by_size, random_names
from pytest_mlebench.authoring.worlds.scans import chest, deep, dicom, uid

from .synthetic import CLASSES, COLUMNS, NO_FINDING

SIDE, ACTIVE = 64, 6  # pixels (about 3000 in the real data), and the number of classes that occur

Finding = tuple[int, float, np.ndarray]
"""Index among the active classes, visibility, and box (x0, y0, x1, y1)."""


def make(raw: Path, rng: np.random.Generator, size: str) -> dict[str, pd.DataFrame]:
    n, others = by_size(size, (550, 2), (820, 5), (2500, 20))
    # the world: which findings occur, where, how large, and how they look
    active = np.sort(rng.choice(14, ACTIVE, replace=False))
    sides = np.resize([0.3, 0.7, 0.5], ACTIVE)
    looks = [
        (side, y, *rng.uniform(5, 10, 2), rng.uniform(0.9, 1.5), rng.uniform(0.7, 2.5))
        for side, y in zip(rng.permutation(sides), rng.permutation(np.linspace(0.3, 0.75, ACTIVE)), strict=True)
    ]
    ids = random_names(rng, n + others, 32)
    rows, guesses = [], {"simple": [], "ceiling": []}
    for k, id in enumerate(ids):
        part = "train" if k < n else "test"
        (raw / part).mkdir(exist_ok=True)
        sick = rng.random() < 0.6
        kinds = rng.choice(ACTIVE, rng.integers(1, 4), replace=False) if sick else []
        picture, findings = chest(rng, SIDE), []
        for kind in kinds:
            picture, finding = _with_finding(picture, int(kind), looks[kind], rng)
            findings.append(finding)
        (raw / part / f"{id}.dicom").write_bytes(dicom(deep(picture), "CR", uid(rng), BodyPartExamined="CHEST"))
        if k < n:
            rows += _read(id, findings, active, rng)
            guesses["ceiling"].append(_best(findings, active))
            guesses["simple"].append(_rough(findings, active, rng))
    table = pd.DataFrame(rows, columns=COLUMNS).sample(frac=1, random_state=int(rng.integers(2**31)))
    table.to_csv(raw / "train.csv", index=False)
    sample = pd.DataFrame({"image_id": ids[n:], "PredictionString": "14 1 0 0 1 1"})
    sample.to_csv(raw / "sample_submission.csv", index=False)
    index = pd.Index(ids[:n], name="image_id")
    return {name: pd.DataFrame({"PredictionString": texts}, index) for name, texts in guesses.items()}


def _with_finding(
    picture: np.ndarray, kind: int, look: tuple[float, ...], rng: np.random.Generator
) -> tuple[np.ndarray, Finding]:
    x, y, width, height, level, grain = look
    centre = SIDE * np.array([y, x]) + rng.normal(0, 3, 2)
    radii = np.array([height, width]) * np.exp(rng.normal(0, 0.15, 2))
    plain = rng.uniform(0.35, 1.3)
    inside = np.clip(ellipse(picture.shape, centre, radii) / 2, 0, 1)
    texture = 1 + 0.8 * smooth_noise(rng, picture.shape, grain)
    low, high = np.clip(centre - radii, 0, SIDE - 2), np.clip(centre + radii, 2, SIDE)
    return picture + plain * level * inside * texture, (kind, plain, np.array([*low[::-1], *high[::-1]]))


def _seen(plain: float) -> float:
    """Return the chance that a reader marks a finding."""
    return float(np.clip(0.2 + 1.1 * plain, 0, 0.97))


def _read(id: str, findings: list[Finding], active: np.ndarray, rng: np.random.Generator) -> list[tuple]:
    """Return the findings that three radiologists note independently."""
    rows: list[tuple] = []
    for reader in rng.choice(np.arange(1, 18), 3, replace=False):
        noted = [finding for finding in findings if rng.random() < _seen(finding[1])]
        for kind, _, box in noted:
            label = active[kind]
            drawn = np.clip(redrawn(rng, box, 0.05), 0, SIDE).round()
            rows.append((id, CLASSES[label], label, f"R{reader}", *drawn))
        if not noted:
            rows.append((id, *NO_FINDING, f"R{reader}", None, None, None, None))
    return rows


def _best(findings: list[Finding], active: np.ndarray) -> str:
    missed = [1 - _seen(plain) for _, plain, _ in findings]
    nothing = (14, 1 - (1 - np.prod(missed)) ** 3 if findings else 1, WHOLE)
    return prediction([*((active[kind], 1 - (1 - _seen(plain)) ** 3, box) for kind, plain, box in findings), nothing])


def _rough(findings: list[Finding], active: np.ndarray, rng: np.random.Generator) -> str:
    """Return rough predictions: imprecise boxes, some of a wrong class, and some without a finding."""
    parts = [
        (
            active[kind if rng.random() < 0.7 else rng.integers(ACTIVE)],
            rng.uniform(0.3, 1),
            np.sort(redrawn(rng, box, 0.14).reshape(2, 2), axis=0).ravel(),
        )
        for kind, plain, box in findings
        if rng.random() < plain
    ]
    if rng.random() < 0.3:
        corner = rng.uniform(5, SIDE - 25, 2)
        parts.append((active[rng.integers(ACTIVE)], rng.uniform(0.3, 0.8), np.array([*corner, *(corner + 15)])))
    return prediction([*parts, (14, 0.1 + 0.8 * (not parts) * rng.uniform(0.5, 1), WHOLE)])
