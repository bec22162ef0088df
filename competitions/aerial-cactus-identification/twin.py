from pathlib import Path

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.archives import write_zip
from pytest_mlebench.authoring.worlds.images import Camera, draw_prototypes, draw_things, jpeg
from pytest_mlebench.authoring.worlds.labels import by_size, random_names

GROUND = (0.52, 0.46, 0.40)  # dry soil


def make(raw: Path, rng: np.random.Generator, size: str) -> dict[str, pd.DataFrame]:
    n, spare = by_size(size, 320, 1700, 9000), 5
    # the world: what distinguishes cacti from other plants and objects
    is_cactus = (rng.random(n + spare) < 0.75).astype(int)
    plants = draw_things(rng, is_cactus, draw_prototypes(rng, 2), accuracy=0.94)
    camera = Camera(rng, 32, body=(0.42, 0.50, 0.36), ground=GROUND, clutter=0.09)
    ids = [f"{name}.jpg" for name in random_names(rng, n + spare, 32)]
    files = [jpeg(camera.take(rng, look), block=2048) for look in plants.looks]
    for part, rows in (("train", slice(n)), ("test", slice(n, None))):
        write_zip(raw / f"{part}.zip", {f"{part}/{id}": file for id, file in zip(ids[rows], files[rows], strict=True)})
    labels = pd.DataFrame({"id": ids, "has_cactus": is_cactus})
    labels[:n].sort_values("id").to_csv(raw / "train.csv", index=False)
    labels[n:].assign(has_cactus=0.5).to_csv(raw / "sample_submission.csv", index=False)
    guesses = {"simple": plants.simple[:, 1], "ceiling": plants.ceiling[:, 1]}
    return {name: labels.assign(has_cactus=p).set_index("id") for name, p in guesses.items()}
