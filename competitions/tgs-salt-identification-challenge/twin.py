from pathlib import Path

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.archives import ZipWriter
from pytest_mlebench.authoring.rle import encode_rle
from pytest_mlebench.authoring.synthetic import png
from pytest_mlebench.authoring.worlds.images import grey, smooth_noise
from pytest_mlebench.authoring.worlds.labels import by_size, random_names

SIDE = 101


def make(raw: Path, rng: np.random.Generator, size: str) -> dict[str, pd.DataFrame]:
    n, extra = by_size(size, 60, 300, 1000), by_size(size, 3, 10, 50)
    # the world: how layers and salt look
    spacing, salt_grain = rng.uniform(3, 5), rng.uniform(1.0, 1.6)
    shade, contrast = rng.choice([-1, 1]) * rng.uniform(0.5, 0.8), rng.uniform(0.3, 0.5)
    ids = random_names(rng, n + extra, 10)
    labels, guesses = [], {"simple": [], "ceiling": []}
    with ZipWriter(raw / "competition_data.zip") as archive:
        for k, id in enumerate(ids):
            body, drawn, blob = _salt(rng)
            y = np.arange(SIDE)[:, None] + 6 * smooth_noise(rng, (SIDE, SIDE), 18)
            layers = np.sin(2 * np.pi * y / spacing / rng.uniform(1.5, 3)) + 0.6 * smooth_noise(
                rng, (SIDE, SIDE), (1, 6)
            )
            salt = shade + contrast * smooth_noise(rng, (SIDE, SIDE), salt_grain)
            picture = np.where(body, salt, layers) + 0.3 * rng.normal(size=body.shape)
            picture = rng.uniform(0.7, 1.2) * picture + rng.normal(0, 0.25)  # brightness varies
            part = "train" if k < n else "test"
            archive.write(f"competition_data/{part}/images/{id}.png", png(grey(picture)))
            if part == "train":
                archive.write(f"competition_data/train/masks/{id}.png", png(drawn.astype(np.uint16) * 65535))
                labels.append(encode_rle(drawn) or None)
                guesses["ceiling"].append(encode_rle(body) or None)
                guesses["simple"].append(encode_rle(blob) or None)
        train = pd.DataFrame({"id": ids[:n], "rle_mask": labels})
        archive.write("competition_data/train.csv", train.to_csv(index=False))
    train.to_csv(raw / "train.csv", index=False)
    depths = pd.DataFrame({"id": rng.permutation(ids), "z": rng.integers(50, 960, len(ids))})
    depths.to_csv(raw / "depths.csv", index=False)
    pd.DataFrame({"id": ids[n:], "rle_mask": "1 1"}).to_csv(raw / "sample_submission.csv", index=False)
    return {name: train.assign(rle_mask=masks).set_index("id") for name, masks in guesses.items()}


def _salt(rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Return masks of the salt, of its imprecise label (one body in twenty is overlooked), and of its rough shape."""
    if rng.random() < 0.38:
        return (np.zeros((SIDE, SIDE), bool),) * 3
    y, x = np.mgrid[:SIDE, :SIDE]
    centre, radius = rng.uniform(15, 85, 2), rng.uniform(18, 50)
    blob = radius - np.hypot(y - centre[0], x - centre[1])
    height = blob + 7 * smooth_noise(rng, (SIDE, SIDE), 14)
    drawn = height + 2 * smooth_noise(rng, (SIDE, SIDE), 10) > 0
    return height > 0, drawn & (rng.random() > 0.05), blob > 0
