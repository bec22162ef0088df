from pathlib import Path

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.archives import write_7z
from pytest_mlebench.authoring.synthetic import write_zipped_csv
from pytest_mlebench.authoring.worlds.images import Camera, draw_prototypes, draw_things, jpeg
from pytest_mlebench.authoring.worlds.labels import by_size


def make(raw: Path, rng: np.random.Generator, size: str) -> dict[str, pd.DataFrame]:
    n, spare = by_size(size, 280, 1000, 2300), 5
    # the world: what the invasive plant looks like. Each picture also shows a native plant
    invasive = (rng.random((n + spare) * 2) < 0.63).astype(int)
    invasive[n + spare :] = 0
    plants = draw_things(rng, invasive, draw_prototypes(rng, 2), accuracy=0.95)
    camera = Camera(rng, 64, body=(0.44, 0.52, 0.42), ground=(0.32, 0.42, 0.26), reach=0.2, size=0.5, clutter=0.1)
    pictures = []
    for k in range(n + spare):
        scene = camera.ground(rng)
        for j in (1, 0):  # the native plant is at the edge, and may be partly hidden
            at = rng.uniform(-0.2, 0.2, 2) if j == 0 else rng.choice([-1, 1], 2) * rng.uniform(0.6, 0.9, 2)
            scene = camera.add(scene, rng, plants.looks[j * (n + spare) + k], at=tuple(at), size=1 if j == 0 else 0.8)
        pictures.append(jpeg(camera.develop(scene, rng)))
    write_7z(raw / "train.7z", {f"train/{k}.jpg": file for k, file in enumerate(pictures[:n], start=1)})
    write_7z(raw / "test.7z", {f"test/{k}.jpg": file for k, file in enumerate(pictures[n:], start=1)})
    labels = pd.DataFrame({"name": range(1, n + 1), "invasive": invasive[:n]})
    write_zipped_csv(raw / "train_labels.csv.zip", labels, "train_labels.csv")
    sample = pd.DataFrame({"name": range(1, spare + 1), "invasive": 0.5})
    write_zipped_csv(raw / "sample_submission.csv.zip", sample, "sample_submission.csv")
    guesses = {"simple": plants.simple, "ceiling": plants.ceiling}
    return {name: labels.assign(invasive=p[:n, 1]).set_index("name") for name, p in guesses.items()}
