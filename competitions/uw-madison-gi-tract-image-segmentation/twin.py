from pathlib import Path

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.rle import encode_rle
from pytest_mlebench.authoring.synthetic import png
from pytest_mlebench.authoring.worlds.images import blob, ellipse, sloppy, smooth_noise
from pytest_mlebench.authoring.worlds.labels import by_size
from pytest_mlebench.authoring.worlds.scans import deep

from .synthetic import CLASSES

SIDE, SLICES = 40, 8  # per day, real scans have 144 slices of 266 by 266 pixels or more
Organ = tuple[np.ndarray, np.ndarray]
"""Centre and radii as shares of the scan: slices, height, width."""
ORGANS: dict[str, Organ] = {
    "large_bowel": (np.array([0.6, 0.6, 0.3]), np.array([0.45, 0.24, 0.12])),
    "small_bowel": (np.array([0.65, 0.58, 0.62]), np.array([0.4, 0.16, 0.18])),
    "stomach": (np.array([0.2, 0.32, 0.62]), np.array([0.35, 0.14, 0.2])),
}


def make(raw: Path, rng: np.random.Generator, size: str) -> dict[str, pd.DataFrame]:
    cases = [f"case{k}" for k in rng.choice(np.arange(2, 160), by_size(size, 8, 12, 40), replace=False)]
    # the world: how bright and how coarse organs are; other tissue looks like one of them
    looks = dict(
        zip(CLASSES, zip(rng.permutation([0.9, 1.7, -0.8]), rng.uniform(0.8, 1.6, 3), strict=True), strict=True)
    )
    alike = CLASSES[rng.integers(3)]
    rows: list[tuple[str, str, str | None, str | None, str | None]] = []
    for case in cases:
        anatomy = {name: _moved(organ, rng, 0.05) for name, organ in ORGANS.items()}
        gain = rng.uniform(0.8, 1.25)
        for number in np.sort(rng.choice(45, rng.integers(3, by_size(size, 4, 6, 7)), replace=False)):
            day = f"{case}_day{number}"
            folder = raw / "train" / case / day / "scans"
            folder.mkdir(parents=True)
            today = {name: _moved(organ, rng, 0.03) for name, organ in anatomy.items()}
            for k in range(SLICES):
                scan, masks = _slice(today, k / SLICES, looks, alike, rng)
                name = f"slice_{k + 1:04d}_{SIDE}_{SIDE}_1.50_1.50.png"
                (folder / name).write_bytes(png(deep(gain * scan - 0.5, 14)))
                for organ, drawn in masks.items():
                    texts = (encode_rle(mask) or None for mask in drawn)
                    rows.append((f"{day}_slice_{k + 1:04d}", organ, *texts))
    table = pd.DataFrame(rows, columns=["id", "class", "segmentation", "simple", "ceiling"])
    table[["id", "class", "segmentation"]].to_csv(raw / "train.csv", index=False)
    pd.DataFrame(columns=["id", "class", "predicted"]).to_csv(raw / "sample_submission.csv", index=False)
    known = table.set_index(["id", "class"])
    return {name: known[[name]].set_axis(["predicted"], axis=1) for name in ("simple", "ceiling")}


def units(submission: pd.DataFrame) -> "pd.Series[str]":
    """Return the day of each row, because distances are measured in the volume of a day."""
    return submission["id"].str.split("_slice_").str[0]


def _moved(organ: Organ, rng: np.random.Generator, share: float) -> Organ:
    return organ[0] + rng.normal(0, share, 3), organ[1] * np.exp(rng.normal(0, 2 * share, 3))


def _slice(
    organs: dict[str, Organ], depth: float, looks: dict[str, tuple[float, float]], alike: str, rng: np.random.Generator
) -> tuple[np.ndarray, dict[str, tuple[np.ndarray, ...]]]:
    """Return a slice, and masks of each organ: as annotated, roughly and exactly."""
    shape = (SIDE, SIDE)
    body = ellipse(shape, (SIDE / 2, SIDE / 2), (0.42 * SIDE, 0.47 * SIDE)) > 0
    scan = np.where(body, 0.3 * smooth_noise(rng, shape, 3), -1.5)
    masks = {}
    for name, (centre, radii) in organs.items():
        cut = 1 - ((depth - centre[0]) / radii[0]) ** 2
        if cut <= 0.05:
            masks[name] = (np.zeros(shape, bool),) * 3
            continue
        place, reach = SIDE * centre[1:], SIDE * np.sqrt(cut) * radii[1:]
        heights = blob(rng, shape, place, reach, rough=0.3)
        rough = ellipse(shape, place + rng.normal(0, 2, 2), reach * rng.uniform(0.7, 1.3)) > 0
        scan = np.where(heights > 0, _tissue(rng, *looks[name]), scan)
        masks[name] = sloppy(rng, heights, 0.6), rough, heights > 0
    if rng.random() < 0.5:
        other = blob(rng, shape, (rng.uniform(10, 16), rng.uniform(10, 18)), rng.uniform(3, 6, 2))
        taken = np.any([mask[2] for mask in masks.values()], axis=0)
        scan = np.where((other > 0) & ~taken & body, _tissue(rng, *looks[alike]), scan)
    return scan + 0.25 * rng.normal(size=shape), masks


def _tissue(rng: np.random.Generator, level: float, grain: float) -> np.ndarray:
    return level + 0.35 * smooth_noise(rng, (SIDE, SIDE), grain)
