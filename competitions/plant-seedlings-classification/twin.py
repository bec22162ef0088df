from pathlib import Path

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.synthetic import png
from pytest_mlebench.authoring.worlds.images import Camera, draw_prototypes, draw_things
from pytest_mlebench.authoring.worlds.labels import by_size, random_names

from .synthetic import SPECIES


def make(raw: Path, rng: np.random.Generator, size: str) -> dict[str, pd.DataFrame]:
    n, spare = by_size(size, 400, 1200, 5000), 8
    # the world: what seedlings look like; some species share colours, and some are rare
    share = rng.dirichlet(np.full(len(SPECIES), 8))
    species = rng.choice(len(SPECIES), n + spare, p=share)
    seedlings = draw_things(rng, species, draw_prototypes(rng, len(SPECIES), groups=5), accuracy=0.85)
    camera = Camera(rng, 56, body=(0.36, 0.52, 0.28), ground=(0.48, 0.40, 0.33))
    names = [f"{name}.png" for name in random_names(rng, n + spare, 9)]
    for folder in (*(f"train/{kind}" for kind in SPECIES), "test"):
        (raw / folder).mkdir(parents=True)
    for k, (name, look) in enumerate(zip(names, seedlings.looks, strict=True)):
        folder = raw / "test" if k >= n else raw / "train" / SPECIES[species[k]]
        (folder / name).write_bytes(png(camera.cut(rng, look)))
    table = pd.DataFrame({"file": names})
    table[n:].assign(species="Sugar beet").to_csv(raw / "sample_submission.csv", index=False)
    guesses = {"simple": seedlings.simple, "ceiling": seedlings.ceiling}
    best = {name: np.array(SPECIES)[p.argmax(axis=1)] for name, p in guesses.items()}
    return {name: table.assign(species=kinds).set_index("file") for name, kinds in best.items()}
