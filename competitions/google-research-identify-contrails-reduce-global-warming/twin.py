import json
from pathlib import Path

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.rle import encode_rle
from pytest_mlebench.authoring.worlds.images import sloppy, smooth_noise
from pytest_mlebench.authoring.worlds.labels import by_size, random_names
from pytest_mlebench.authoring.worlds.scans import tube

from .prepare import BANDS, MASKS

SIDE, FRAMES, LABELLED = 20, 8, 4  # pixels (256 in the real data), times, and the labelled time
READERS = 4


def make(raw: Path, rng: np.random.Generator, size: str) -> dict[str, pd.DataFrame]:
    n, n_test, others = by_size(size, (40, 20, 1), (78, 45, 1), (600, 150, 2))
    # the world: how contrails, streaks of cirrus and clouds look in each band
    world = rng.normal(0, 1, (3, len(BANDS)))
    world[:2] *= np.sign(world[:2] @ world[0])[:, None]  # cirrus looks somewhat like contrails
    world[1] = 0.6 * world[1] + 0.6 * world[0]
    ids = random_names(rng, n + n_test + others, 18, "123456789")
    parts = {"train": ids[:n], "validation": ids[n : n + n_test], "test": ids[n + n_test :]}
    guesses = {}
    for part, records in parts.items():
        (raw / f"{part}_metadata.json").write_text(json.dumps([_record(id, rng) for id in records]))
        for id in records:
            folder = raw / part / id
            folder.mkdir(parents=True)
            lines, streaks = _write_bands(folder, world, rng)
            readers = np.stack([sloppy(rng, lines - 0.35, 0.12, 1.5) for _ in range(READERS)])
            if part != "test":
                np.save(folder / MASKS[0], (readers.mean(axis=0) > 0.5)[..., None].astype(np.int32))
            if part == "train":
                np.save(folder / MASKS[1], readers.transpose(1, 2, 0)[:, :, None].astype(np.int32))
                guesses[id] = [encode_rle(np.maximum(lines, streaks) > 0.2) or "-", encode_rle(lines > 0.35) or "-"]
    sample = pd.DataFrame({"record_id": parts["test"], "encoded_pixels": "1 3 10 5"})
    sample.to_csv(raw / "sample_submission.csv", index=False)
    known = pd.DataFrame.from_dict(guesses, orient="index", columns=["simple", "ceiling"]).rename_axis("record_id")
    return {name: known[[name]].set_axis(["encoded_pixels"], axis=1) for name in known}


def _record(id: str, rng: np.random.Generator) -> dict[str, object]:
    row, column, start = rng.integers(-(10**6), 10**6, 2).tolist() + rng.integers(1554000000, 1586000000, 1).tolist()
    corner = {"row_min": row + 0.5, "row_size": 2004.0173154875, "col_min": column + 0.5, "col_size": 2004.0173154875}
    return {"record_id": id, **corner, "timestamp": float(start), "projection_wkt": 'PROJCS["unnamed"]'}


def _write_bands(folder: Path, world: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Write the bands; returns the density of contrails and of cirrus at the labelled time: shape (SIDE, SIDE) each."""
    shape = (SIDE, SIDE)
    contrails = [_straight(rng) for _ in range(rng.choice([0, 1, 2], p=[0.4, 0.35, 0.25]))]
    cirrus = [_straight(rng) for _ in range(rng.choice([0, 1], p=[0.5, 0.5]))]
    wind, clouds = rng.normal(0, 0.015, 2), smooth_noise(rng, shape, 3)
    grown = rng.integers(0, LABELLED + 1)  # the time at which the contrails appear
    bands = np.empty((len(BANDS), SIDE, SIDE, FRAMES))
    for time in range(FRAMES):
        moved = wind * (time - LABELLED)
        lines = _drawn([line + moved for line in contrails], 0.6) * (time >= grown)
        streaks = _drawn([line + moved for line in cirrus], 1.6)
        if time == LABELLED:
            marked = lines, streaks
        seen = np.stack([1.3 * lines, 1.3 * streaks, np.roll(clouds, np.rint(moved * SIDE).astype(int), (1, 0))])
        bands[..., time] = np.tensordot(world.T, seen, 1) + 0.6 * rng.normal(size=(len(BANDS), *shape))
    bands = 255 - 6 * bands + rng.normal(0, 6) + np.linspace(-20, 20, len(BANDS))[:, None, None, None]
    for name, band in zip(BANDS, bands, strict=True):
        np.save(folder / name, band.round(3).astype(np.float32))
    return marked


def _straight(rng: np.random.Generator) -> np.ndarray:
    turn, centre = rng.uniform(0, np.pi), rng.uniform(0.25, 0.75, 2)
    reach = rng.uniform(0.25, 0.7) * np.array([np.cos(turn), np.sin(turn)])
    return np.array([centre - reach, centre + reach])


def _drawn(lines: list[np.ndarray], width: float) -> np.ndarray:
    return np.max([np.zeros((SIDE, SIDE)), *(tube((SIDE, SIDE), line, width) for line in lines)], axis=0)
