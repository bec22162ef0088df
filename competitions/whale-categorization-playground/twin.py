from pathlib import Path

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.worlds.images import Camera, best_names, draw_prototypes, draw_things, jpeg
from pytest_mlebench.authoring.worlds.labels import by_size, random_names

from .synthetic import SAMPLE

KNOWN, OTHERS = 36, 30
"""Number of whales with names, and of those that count as new."""


def make(raw: Path, rng: np.random.Generator, size: str) -> dict[str, pd.DataFrame]:
    each, spare = by_size(size, 10, 26, 120), 8
    # the world: what flukes look like. Some whales are common, some rare; groups of whales share colours
    names = [*SAMPLE, *(f"w_{name}" for name in random_names(rng, KNOWN - len(SAMPLE), 7))]
    met = np.r_[rng.integers(each // 2, 2 * each, KNOWN - 16), np.full(16, 2), np.full(OTHERS, each // 5)]
    whale = rng.permutation(np.r_[np.repeat(np.arange(KNOWN + OTHERS), met), rng.integers(KNOWN, size=spare)])
    flukes = draw_things(rng, whale, draw_prototypes(rng, KNOWN + OTHERS, groups=20), accuracy=0.8)
    camera = Camera(rng, 64, body=(0.42, 0.45, 0.50), ground=(0.40, 0.48, 0.55), size=0.65)
    files = [f"{name}.jpg" for name in random_names(rng, len(whale), 8)]
    for folder in ("train", "test"):
        (raw / folder).mkdir()
    for k, (file, look) in enumerate(zip(files, flukes.looks, strict=True)):
        (raw / ("test" if k < spare else "train") / file).write_bytes(jpeg(camera.cut(rng, look)))
    known = np.array([*names, "new_whale"])
    table = pd.DataFrame({"Image": files, "Id": known[np.minimum(whale, KNOWN)]})
    table[spare:].sort_values("Image").to_csv(raw / "train.csv", index=False)
    table[:spare].assign(Id=" ".join(["new_whale", *SAMPLE])).to_csv(raw / "sample_submission.csv", index=False)
    guesses = {}
    for name, p in (("simple", flukes.simple), ("ceiling", flukes.ceiling)):
        p = np.c_[p[:, :KNOWN], p[:, KNOWN:].sum(axis=1)]  # any whale without a name
        guesses[name] = table.assign(Id=best_names(p, known, 5)).set_index("Image")
    return guesses
