from pathlib import Path

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.worlds.images import Camera, draw_prototypes, draw_things, jpeg
from pytest_mlebench.authoring.worlds.labels import by_size, random_names

from .synthetic import LABELS, SINGLE

SHARES = [0.26, 0.25, 0.17, 0.10, 0.09, 0.06, 0.03, 0.01, 0.01, 0.01, 0.005, 0.005]
"""Share of each combination of labels."""


def make(raw: Path, rng: np.random.Generator, size: str) -> dict[str, pd.DataFrame]:
    n, spare = by_size(size, 300, 1000, 6000), 3
    # the world: what each disease does to a leaf; some leaves have several
    has = np.array([[name in text.split() for name in SINGLE] for text in LABELS], float)
    effects = draw_prototypes(rng, len(SINGLE))
    state = rng.choice(len(LABELS), n + spare, p=SHARES)
    leaves = draw_things(rng, state, has @ effects, accuracy=0.85)
    # the real images are thousands of pixels wide; their size does not matter
    camera = Camera(rng, 64, body=(0.40, 0.55, 0.30), ground=(0.40, 0.46, 0.38), size=0.75)
    names = [f"{name}.jpg" for name in random_names(rng, n + spare, 16)]
    for folder in ("train_images", "test_images"):
        (raw / folder).mkdir()
    for k, (name, look) in enumerate(zip(names, leaves.looks, strict=True)):
        picture = jpeg(camera.take(rng, look)[:48])
        (raw / ("train_images" if k < n else "test_images") / name).write_bytes(picture)
    table = pd.DataFrame({"image": names, "labels": np.array(LABELS)[state]})
    table[:n].sort_values("image").to_csv(raw / "train.csv", index=False)
    table[n:].assign(labels="healthy").to_csv(raw / "sample_submission.csv", index=False)
    guesses = {"simple": leaves.simple @ has, "ceiling": leaves.ceiling @ has}
    return {name: table.assign(labels=_likely(p)).set_index("image") for name, p in guesses.items()}


def _likely(chances: np.ndarray) -> list[str]:
    """Return the labels with a probability above 0.45, or the most probable one."""
    chosen = (chances > 0.45) | (chances == chances.max(axis=1, keepdims=True))
    return [" ".join(np.array(SINGLE)[row]) for row in chosen]
