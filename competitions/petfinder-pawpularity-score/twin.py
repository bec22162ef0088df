from pathlib import Path

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.worlds.images import COLOURS, TRAITS, Camera, jpeg
from pytest_mlebench.authoring.worlds.labels import add_noise, by_size, random_names

from .synthetic import FLAGS


def make(raw: Path, rng: np.random.Generator, size: str) -> dict[str, pd.DataFrame]:
    n, spare = by_size(size, 600, 1700, 9000), 8
    looks, flags = rng.normal(size=(n + spare, len(TRAITS))), (rng.random((n + spare, len(FLAGS))) < 0.3).astype(int)
    # the world: what people like. Colours and two flags are easily seen; pattern and shape count as well
    liking = rng.choice([-1, 1], len(TRAITS)) * rng.uniform(0.4, 0.8, len(TRAITS))
    weight = np.zeros(len(FLAGS))
    weight[rng.choice(len(FLAGS), 2, replace=False)] = rng.choice([-1, 1], 2) * 1.2
    plain = looks[:, :COLOURS] @ liking[:COLOURS] + flags @ weight
    score = plain + looks[:, COLOURS:] @ liking[COLOURS:]
    score = score + 0.4 * looks[:, 3] * looks[:, 4]  # an interaction of two traits
    shape = 38 + 18 * (np.stack([plain, score]) - score.mean()) / score.std()
    liked = add_noise(shape[1], rng, r2=0.8).round().clip(1, 100).astype(int)
    camera = Camera(rng, 64, body=(0.52, 0.44, 0.36))
    ids = random_names(rng, n + spare, 32)
    for folder in ("train", "test"):
        (raw / folder).mkdir()
    for k, (id, look) in enumerate(zip(ids, looks, strict=True)):
        (raw / ("train" if k < n else "test") / f"{id}.jpg").write_bytes(jpeg(camera.cut(rng, look)))
    table = pd.DataFrame({"Id": ids}).join(pd.DataFrame(flags, columns=FLAGS))
    table[:n].assign(Pawpularity=liked[:n]).to_csv(raw / "train.csv", index=False)
    table[n:].to_csv(raw / "test.csv", index=False)
    table[n:][["Id"]].assign(Pawpularity=rng.uniform(1, 100, spare).round(2)).to_csv(
        raw / "sample_submission.csv", index=False
    )
    guesses = dict(zip(("simple", "ceiling"), shape.round(2).clip(1, 100), strict=True))
    return {name: table[["Id"]].assign(Pawpularity=p).set_index("Id") for name, p in guesses.items()}
