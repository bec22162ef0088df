import json
from pathlib import Path

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.tfrecord import tfrecord
from pytest_mlebench.authoring.worlds.images import Camera, draw_prototypes, draw_things, jpeg
from pytest_mlebench.authoring.worlds.labels import by_size

from .synthetic import DISEASES, FILES


def make(raw: Path, rng: np.random.Generator, size: str) -> dict[str, pd.DataFrame]:
    n, spare = FILES * by_size(size, 30, 75, 400), 1
    # the world: what each disease does to a leaf; two pairs of them change its colours in the same way
    disease = rng.choice(5, n + spare, p=[0.10, 0.15, 0.17, 0.40, 0.18])
    leaves = draw_things(rng, disease, draw_prototypes(rng, 5, groups=3), accuracy=0.85)
    camera = Camera(rng, 48, body=(0.42, 0.55, 0.32), ground=(0.46, 0.42, 0.34), size=0.75)
    names = [f"{k}.jpg" for k in rng.choice(np.arange(6_000_000, 4_294_967_295, 1009), n + spare, replace=False)]
    images = [jpeg(camera.take(rng, look), block=2048) for look in leaves.looks]
    for folder in ("train_images", "train_tfrecords", "test_images", "test_tfrecords"):
        (raw / folder).mkdir()
    for k, (name, image) in enumerate(zip(names, images, strict=True)):
        (raw / ("train_images" if k < n else "test_images") / name).write_bytes(image)
    examples = [
        {"image": image, "image_name": name, "target": int(label)}
        for image, name, label in zip(images, names, disease, strict=True)
    ]
    for k, rows in enumerate(np.array_split(np.arange(n), FILES)):
        path = raw / "train_tfrecords" / f"ld_train{k:02d}-{len(rows)}.tfrec"
        path.write_bytes(tfrecord([examples[row] for row in rows]))
    unlabelled = {"image": images[n], "image_name": names[n]}
    (raw / "test_tfrecords" / "ld_test00-1.tfrec").write_bytes(tfrecord([unlabelled]))
    table = pd.DataFrame({"image_id": names, "label": disease})
    table[:n].iloc[rng.permutation(n)].to_csv(raw / "train.csv", index=False)
    table[n:].assign(label=4).to_csv(raw / "sample_submission.csv", index=False)
    (raw / "label_num_to_disease_map.json").write_text(json.dumps(DISEASES))
    guesses = {"simple": leaves.simple, "ceiling": leaves.ceiling}
    return {name: table.assign(label=p.argmax(axis=1)).set_index("image_id") for name, p in guesses.items()}
