from pathlib import Path

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.tables import split
from pytest_mlebench.authoring.worlds.images import Camera, draw_prototypes, draw_things, jpeg
from pytest_mlebench.authoring.worlds.labels import by_size

from .grade import STATES


def make(raw: Path, rng: np.random.Generator, size: str) -> dict[str, pd.DataFrame]:
    n, spare = by_size(size, 600, 1700, 4000), 12
    # the world: what rust and scab do to a leaf; some leaves have both
    state = rng.choice(4, n + spare, p=[0.28, 0.12, 0.3, 0.3])
    healthy, rust, scab = draw_prototypes(rng, 3)
    prototypes = np.stack([healthy, rust + scab - healthy, rust, scab])
    leaves = draw_things(rng, state, prototypes, accuracy=0.85)
    # the real images have 2048 x 1365 pixels; their size does not matter
    camera = Camera(rng, 64, body=(0.40, 0.55, 0.30), ground=(0.40, 0.46, 0.38), size=0.75)
    (raw / "images").mkdir()
    ids = [f"Train_{k}" for k in range(n)] + [f"Test_{k}" for k in range(spare)]
    for id, look in zip(ids, leaves.looks, strict=True):
        (raw / "images" / f"{id}.jpg").write_bytes(jpeg(camera.take(rng, look)[:48]))
    table = pd.DataFrame({"image_id": ids} | {name: (state == k).astype(int) for k, name in enumerate(STATES)})
    table[:n].to_csv(raw / "train.csv", index=False)
    table[n:][["image_id"]].to_csv(raw / "test.csv", index=False)
    table[n:].assign(**dict.fromkeys(STATES, 0.25)).to_csv(raw / "sample_submission.csv", index=False)
    _, held_out = split(np.arange(n), test_size=0.1)  # like prepare.py, which renumbers the images
    renamed = pd.Index([f"Test_{k}" for k in range(len(held_out))], name="image_id")
    guesses = {"simple": leaves.simple, "ceiling": leaves.ceiling}
    return {name: pd.DataFrame(p[held_out], renamed, columns=STATES) for name, p in guesses.items()}
