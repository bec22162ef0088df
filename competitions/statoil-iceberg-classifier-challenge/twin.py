import json
from pathlib import Path

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.archives import write_7z
from pytest_mlebench.authoring.worlds.images import draw_prototypes, draw_things, smooth_noise
from pytest_mlebench.authoring.worlds.labels import by_size, random_names

SIDE = 75
FOLDER = "data/processed"


def make(raw: Path, rng: np.random.Generator, size: str) -> dict[str, pd.DataFrame]:
    n, unlabelled = by_size(size, 280, 420, 1600), 3
    # the world: how ships and icebergs scatter radar waves, what shape they have, and what is around them
    is_iceberg = (rng.random(n + unlabelled) < 0.47).astype(int)
    objects = draw_things(rng, is_iceberg, draw_prototypes(rng, 2), accuracy=0.92)
    ids = random_names(rng, n + unlabelled, 8)
    angles = rng.uniform(30, 46, n // 3).round(4)  # images of one satellite pass share an angle
    images = []
    for id, look, label in zip(ids, objects.looks, is_iceberg.tolist(), strict=True):
        angle = float(rng.choice(angles))
        hh, hv = _bands(rng, look, angle)
        unknown = rng.random() < 0.08
        images.append({"id": id, "band_1": hh, "band_2": hv, "inc_angle": "na" if unknown else angle})
        if len(images) <= n:
            images[-1]["is_iceberg"] = label
    sample = pd.DataFrame({"id": ids[n:], "is_iceberg": 0.5}).to_csv(index=False)
    members = {"train.json": json.dumps(images[:n]), "test.json": json.dumps(images[n:])}
    for name, content in (members | {"sample_submission.csv": sample}).items():
        write_7z(raw / f"{name}.7z", {f"{FOLDER}/{name}": content})
    table, guesses = pd.DataFrame({"id": ids}), {"simple": objects.simple, "ceiling": objects.ceiling}
    return {name: table.assign(is_iceberg=p[:, 1].round(5)).set_index("id") for name, p in guesses.items()}


def _bands(rng: np.random.Generator, look: np.ndarray, angle: float) -> tuple[list[float], list[float]]:
    """Return the image in both polarisations, in decibels. The larger the angle, the darker the sea."""
    strong, crossed, large, long, soft, rough, shadow, wake = np.clip(look, -2.5, 2.5)
    y, x = np.mgrid[:SIDE, :SIDE] - 37 + rng.uniform(-6, 6, (2, 1, 1))
    turn = rng.uniform(0, 2 * np.pi)
    along, across = x * np.cos(turn) + y * np.sin(turn), y * np.cos(turn) - x * np.sin(turn)
    stretch = np.exp(0.22 * long)
    rho = np.hypot(along / stretch, across * stretch)
    radius, edge = 7 * np.exp(0.18 * large), 1.6 * np.exp(0.4 * soft)
    body = 1 / (1 + np.exp(np.clip((rho - radius) / edge, -50, 50)))
    around = np.exp(-((np.hypot(along - 2.2 * radius, across) / radius) ** 2))
    sea = -0.35 * (angle - 38) - 0.8 * (1 + np.tanh(shadow)) * around
    trail = (1 + np.tanh(wake)) * np.exp(-((across / 2.5) ** 2)) * (along < -radius)
    bands = []
    for level, gain in ((-22.0, 9 + 2 * strong), (-28.0, 6 + 1.5 * strong + 2 * crossed)):
        grain = 1 + 0.14 * (1 + np.tanh(rough)) * smooth_noise(rng, (SIDE, SIDE), 1.2)
        speckle = 1.6 * smooth_noise(rng, (SIDE, SIDE), 0.6)
        # the real values have more digits, and take four times as many bytes
        bands.append((level + sea + trail + gain * body * grain + speckle).round(1).ravel().tolist())
    return bands[0], bands[1]
