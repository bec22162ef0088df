from pathlib import Path

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.worlds.images import Camera, draw_prototypes, draw_things, tiff
from pytest_mlebench.authoring.worlds.labels import by_size, random_names

MARGIN = [(-0.7, -0.6), (-0.75, 0.5), (0.6, -0.75), (0.7, 0.7)]


def make(raw: Path, rng: np.random.Generator, size: str) -> dict[str, pd.DataFrame]:
    n, unlabelled = by_size(size, (240, 70), (390, 130), (2500, 700))
    # the world: what tumour tissue looks like. Only the centre of a patch counts, but the margin may also have some
    is_tumour = (rng.random((n + unlabelled) * (1 + len(MARGIN))) < 0.4).astype(int)
    tissue = draw_things(rng, is_tumour, draw_prototypes(rng, 2), accuracy=0.93)
    camera = Camera(rng, 96, body=(0.55, 0.36, 0.58), ground=(0.78, 0.62, 0.76), reach=0.06, size=0.3)
    ids = random_names(rng, n + unlabelled, 40)
    for folder in ("train", "test"):
        (raw / folder).mkdir()
    for k, id in enumerate(ids):
        patch = camera.ground(rng)
        for j, place in enumerate([(0.0, 0.0), *MARGIN]):
            patch = camera.add(patch, rng, tissue.looks[j * len(ids) + k], at=place)
        (raw / ("train" if k < n else "test") / f"{id}.tif").write_bytes(tiff(camera.develop(patch, rng)))
    labels = pd.DataFrame({"id": ids, "label": is_tumour[: len(ids)]})
    labels[:n].to_csv(raw / "train_labels.csv", index=False)
    labels[n:].assign(label=0).to_csv(raw / "sample_submission.csv", index=False)
    guesses = {"simple": tissue.simple, "ceiling": tissue.ceiling}
    return {name: labels.assign(label=p[: len(ids), 1]).set_index("id") for name, p in guesses.items()}
