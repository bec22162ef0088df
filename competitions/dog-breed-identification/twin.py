from pathlib import Path

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.worlds.images import Camera, draw_prototypes, draw_things, jpeg
from pytest_mlebench.authoring.worlds.labels import by_size, random_names

from .synthetic import BREEDS


def make(raw: Path, rng: np.random.Generator, size: str) -> dict[str, pd.DataFrame]:
    often, spare = by_size(size, 480, 1300, 9000), 5
    # the world: what breeds look like. Most are rare, because their number is fixed; related ones share colours
    common = rng.choice(len(BREEDS), 12, replace=False)
    breed = rng.permutation(np.r_[np.arange(len(BREEDS)), rng.choice(common, often + spare)])
    dogs = draw_things(rng, breed, _related(rng, common), accuracy=0.78)
    camera = Camera(rng, 64, body=(0.52, 0.44, 0.36))
    ids = random_names(rng, len(breed), 32)
    for folder in ("train", "test"):
        (raw / folder).mkdir()
    for k, (id, look) in enumerate(zip(ids, dogs.looks, strict=True)):
        (raw / ("test" if k < spare else "train") / f"{id}.jpg").write_bytes(jpeg(camera.cut(rng, look)))
    table = pd.DataFrame({"id": ids, "breed": np.array(BREEDS)[breed]})
    table[spare:].sort_values("id").to_csv(raw / "labels.csv", index=False)
    sample = pd.DataFrame({"id": ids[:spare], **dict.fromkeys(BREEDS, 1 / len(BREEDS))})
    sample.to_csv(raw / "sample_submission.csv", index=False)
    index = pd.Index(ids, name="id")
    # colours alone are uncertain evidence, so mix in the frequency of each breed
    guesses = {"simple": 0.6 * dogs.simple + 0.4 * dogs.simple.mean(axis=0), "ceiling": dogs.ceiling}
    return {name: pd.DataFrame(_summing_to_one(p), index, columns=BREEDS) for name, p in guesses.items()}


def _related(rng: np.random.Generator, common: np.ndarray) -> np.ndarray:
    """Return prototypes of all breeds. The common ones form groups with the same colours."""
    prototypes = rng.normal(size=(len(BREEDS), 8))
    prototypes[common] = draw_prototypes(rng, len(common), groups=4)
    return prototypes


def _summing_to_one(p: np.ndarray) -> np.ndarray:
    p = np.round(0.995 * p + 0.005 / len(BREEDS), 6)
    p[np.arange(len(p)), p.argmax(axis=1)] += 1 - p.sum(axis=1)
    return p
