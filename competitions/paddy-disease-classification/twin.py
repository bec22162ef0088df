from pathlib import Path

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.worlds.images import Camera, draw_prototypes, draw_things, jpeg
from pytest_mlebench.authoring.worlds.labels import by_size

from .synthetic import FREQUENCIES, LABELS

VARIETIES = ["ADT45", "KarnatakaPonni", "Ponni", "AndraPonni", "RR", "IR20"]


def make(raw: Path, rng: np.random.Generator, size: str) -> dict[str, pd.DataFrame]:
    n, spare = by_size(size, 300, 1000, 6000), 12
    # the world: what diseases and pests do to rice; some change its colours in the same way
    disease = rng.choice(len(LABELS), n + spare, p=FREQUENCIES)
    plants = draw_things(rng, disease, draw_prototypes(rng, len(LABELS), groups=4), accuracy=0.85)
    camera = Camera(rng, 64, body=(0.50, 0.56, 0.30), ground=(0.34, 0.44, 0.26), clutter=0.1)
    numbers = [*(100001 + rng.permutation(n)), *(200001 + np.arange(spare))]
    table = pd.DataFrame({"image_id": [f"{k}.jpg" for k in numbers], "label": np.array(LABELS)[disease]})
    for folder in (*(f"train_images/{label}" for label in LABELS), "test_images"):
        (raw / folder).mkdir(parents=True)
    for k, (name, look) in enumerate(zip(table["image_id"], plants.looks, strict=True)):
        folder = raw / "test_images" if k >= n else raw / "train_images" / LABELS[disease[k]]
        (folder / name).write_bytes(jpeg(camera.take(rng, look)[:, :48]))
    train = table[:n].assign(variety=rng.choice(VARIETIES, n), age=rng.integers(45, 83, n))
    train.sort_values(["label", "image_id"]).to_csv(raw / "train.csv", index=False)
    table[n:].assign(label="").to_csv(raw / "sample_submission.csv", index=False)
    guesses = {"simple": plants.simple, "ceiling": plants.ceiling}
    best = {name: np.array(LABELS)[p.argmax(axis=1)] for name, p in guesses.items()}
    return {name: table.assign(label=labels).set_index("image_id") for name, labels in best.items()}
