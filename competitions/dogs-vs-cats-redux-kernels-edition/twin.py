from pathlib import Path

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.archives import write_zip
from pytest_mlebench.authoring.tables import split
from pytest_mlebench.authoring.worlds.images import Camera, draw_prototypes, draw_things, jpeg
from pytest_mlebench.authoring.worlds.labels import by_size


def make(raw: Path, rng: np.random.Generator, size: str) -> dict[str, pd.DataFrame]:
    n, spare = by_size(size, 500, 1600, 10000), 5
    # the world: what distinguishes made-up dogs from made-up cats
    is_dog = (rng.random(n + spare) < 0.5).astype(int)
    animals = draw_things(rng, is_dog, draw_prototypes(rng, 2), accuracy=0.93)
    camera = Camera(rng, 64, body=(0.55, 0.47, 0.38))
    files = [jpeg(camera.cut(rng, look)) for look in animals.looks]
    numbers = pd.Series(is_dog[:n]).groupby(is_dog[:n]).cumcount()
    names = [f"train/{('cat', 'dog')[dog]}.{k}.jpg" for dog, k in zip(is_dog, numbers, strict=False)]
    write_zip(raw / "train.zip", {names[k]: files[k] for k in rng.permutation(n)})
    write_zip(raw / "test.zip", {f"test/{k}.jpg": file for k, file in enumerate(files[n:], start=1)})
    sample = pd.DataFrame({"id": range(1, spare + 1), "label": 0.5})
    sample.to_csv(raw / "sample_submission.csv", index=False)
    # like prepare.py, which renumbers the test images
    _, held_out = split(sorted(range(n), key=names.__getitem__), test_size=0.1)
    ids = pd.RangeIndex(1, len(held_out) + 1, name="id")
    guesses = {"simple": animals.simple, "ceiling": animals.ceiling}
    return {name: pd.DataFrame({"label": p[held_out, 1]}, ids) for name, p in guesses.items()}
