from pathlib import Path

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.synthetic import png
from pytest_mlebench.authoring.worlds.images import Camera, draw_prototypes, draw_things
from pytest_mlebench.authoring.worlds.labels import by_size, random_names

SIDE = 56
LETTER = "abcdf"  # with e, a code may look like a number


def make(raw: Path, rng: np.random.Generator, size: str) -> dict[str, pd.DataFrame]:
    n, spare = by_size(size, 550, 1100, 3500), 6
    # the world: how an eye changes from stage to stage, along a curve
    stage = rng.choice(5, n + spare, p=[0.42, 0.12, 0.24, 0.10, 0.12])
    start, end, turn = draw_prototypes(rng, 3)
    along = np.linspace(0, 1, 5)[:, None]
    retinas = draw_things(rng, stage, start + (end - start) * along + turn * np.sin(np.pi * along), accuracy=0.8)
    camera = Camera(rng, SIDE, body=(0.62, 0.40, 0.22), ground=(0.70, 0.36, 0.18), reach=0.15, size=0.5)
    y, x = np.mgrid[-1 : 1 : SIDE * 1j, -1 : 1 : SIDE * 1j]
    codes = [code + str(rng.choice(list(LETTER))) for code in random_names(rng, n + spare, 11)]
    for folder in ("train_images", "test_images"):
        (raw / folder).mkdir()
    for k, (code, look) in enumerate(zip(codes, retinas.looks, strict=True)):
        seen = np.hypot(y, x) < rng.uniform(0.88, 1.1)  # the camera's round field of view
        eye = camera.add(camera.ground(rng), rng, look) * seen[..., None]
        (raw / ("train_images" if k < n else "test_images") / f"{code}.png").write_bytes(png(camera.develop(eye, rng)))
    table = pd.DataFrame({"id_code": codes, "diagnosis": stage})
    table[:n].sort_values("id_code").to_csv(raw / "train.csv", index=False)
    table[n:][["id_code"]].to_csv(raw / "test.csv", index=False)
    table[n:].assign(diagnosis=0).to_csv(raw / "sample_submission.csv", index=False)
    # the expected stage is the best prediction for the quadratic kappa
    guesses = {"simple": retinas.simple, "ceiling": retinas.ceiling}
    means = {name: (p @ np.arange(5)).round().astype(int) for name, p in guesses.items()}
    return {name: table.assign(diagnosis=mean).set_index("id_code") for name, mean in means.items()}
