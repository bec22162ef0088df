import uuid
from pathlib import Path

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.archives import write_zip
from pytest_mlebench.authoring.worlds.images import Camera, draw_prototypes, draw_things, jpeg
from pytest_mlebench.authoring.worlds.labels import by_size

from .synthetic import CLASSES

KINDS, EMPTY = 8, 0


def make(raw: Path, rng: np.random.Generator, size: str) -> dict[str, pd.DataFrame]:
    traps, each, spare = by_size(size, (55, 10, 2), (100, 13, 4), (130, 50, 8))
    n = (traps + 1) * each
    # the world: what animals look like; three pairs share their colours, and a third of the images is empty
    animals = np.sort(rng.choice(CLASSES[1:], KINDS, replace=False))
    kind = rng.choice(KINDS, n, p=rng.dirichlet(np.full(KINDS, 6)))
    seen = draw_things(rng, kind, draw_prototypes(rng, KINDS, groups=5), accuracy=0.85)
    is_empty = rng.random(n) < 0.35
    camera = Camera(rng, 64, body=(0.48, 0.44, 0.38), ground=(0.40, 0.44, 0.34), reach=0.4, size=0.5, clutter=0.1)
    locations, rows, files = rng.permutation(np.arange(1, 200))[: traps + 1], [], {}
    for k in range(n):
        if k % each == 0:
            background, sequence = camera.ground(rng), _uuid(rng)  # cameras do not move
        scene = background if is_empty[k] else camera.add(background, rng, seen.looks[k])
        id = _uuid(rng)
        day, hour = rng.integers(1, 29), rng.integers(24)
        row = {
            "category_id": EMPTY if is_empty[k] else int(animals[kind[k]]),
            "date_captured": f"2012-03-{day:02d} {hour:02d}:05:{rng.integers(60):02d}",
            "file_name": f"{id}.jpg",
            "frame_num": k % each % 3 + 1,
            "id": id,
            "location": int(locations[k // each]),
            "rights_holder": "nobody",
            "seq_id": sequence,
            "seq_num_frames": 3,
            "width": 64,
            "height": 64,
        }
        rows.append(row)
        files[id] = jpeg(camera.develop(scene, rng))
    images = pd.DataFrame(rows)
    known = images[:-each].iloc[rng.permutation(n - each)]
    known.to_csv(raw / "train.csv", index=False)
    test = images.tail(spare)
    test.drop(columns="category_id").to_csv(raw / "test.csv", index=False)
    for name, ids in (("train_images.zip", known["id"]), ("test_images.zip", test["id"])):
        write_zip(raw / name, {f"{id}.jpg": files[id] for id in ids})
    test[["id"]].set_axis(["Id"], axis=1).assign(Predicted=0).to_csv(raw / "sample_submission.csv", index=False)
    guesses, index = {"simple": seen.simple, "ceiling": seen.ceiling}, pd.Index(images["id"], name="Id")
    best = {name: np.where(is_empty, EMPTY, animals[p.argmax(axis=1)]) for name, p in guesses.items()}
    return {name: pd.DataFrame({"Category": categories}, index) for name, categories in best.items()}


def _uuid(rng: np.random.Generator) -> str:
    return str(uuid.UUID(bytes=rng.bytes(16)))
