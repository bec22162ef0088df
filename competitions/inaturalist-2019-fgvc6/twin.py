import json
from pathlib import Path

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.archives import write_tar_gz
from pytest_mlebench.authoring.worlds.images import Camera, draw_species, jpeg
from pytest_mlebench.authoring.worlds.labels import by_size, random_names
from pytest_mlebench.authoring.worlds.text import lexicon

from .synthetic import KINGDOMS

INFO = {"contributor": "", "date_created": "2019-01-01", "description": "", "url": "", "version": 1.0, "year": 2019}
LICENSES = [{"id": 3, "name": "CC", "url": "https://example.org"}]


def make(raw: Path, rng: np.random.Generator, size: str) -> dict[str, pd.DataFrame]:
    # the world: what species look like; those of a genus have the same colours
    count, n, val = by_size(size, (12, 450, 20), (24, 1250, 60), (60, 5000, 300))
    numbers, seen = draw_species(rng, count, n + val + 1, below=1010, accuracy=0.85)
    # the real photos have up to 800 pixels; their size does not matter
    camera = Camera(rng, 64, body=(0.48, 0.48, 0.38))
    species, files = numbers[seen.classes].tolist(), random_names(rng, len(seen.classes), 32)
    words = [word.title() for word in lexicon(rng, 40)]
    images, photos = [], []
    for id, (label, file, look) in enumerate(zip(species, files, seen.looks, strict=True)):
        name = f"train_val2019/{KINGDOMS[label % 4]}/{label}/{file}.jpg" if id < n + val else f"test2019/{file}.jpg"
        photo = camera.cut(rng, look)
        photos.append((name, jpeg(photo)))
        height, width = photo.shape[:2]
        images.append({"id": id, "width": width, "height": height, "file_name": name, "license": 3})
        images[-1]["rights_holder"] = words[rng.integers(40)]
    ranks = {"kingdom": "Plantae", "phylum": "", "class": "", "order": "", "family": ""}
    categories = [{"id": int(k), "name": f"{words[k % 8]} sp{k}", **ranks, "genus": words[k % 8]} for k in numbers]
    for name, rows in (("train2019", range(n)), ("val2019", range(n, n + val))):
        content = {
            "info": INFO,
            "images": [images[k] for k in rows],
            "licenses": LICENSES,
            "annotations": [{"id": k, "image_id": k, "category_id": species[k]} for k in rows],
            "categories": categories,
        }
        (raw / f"{name}.json").write_text(json.dumps(content))
    (raw / "test2019.json").write_text(json.dumps({"info": INFO, "images": images[n + val :], "licenses": LICENSES}))
    write_tar_gz(raw / "train_val2019.tar.gz", sorted(photos[: n + val]))
    write_tar_gz(raw / "test2019.tar.gz", photos[n + val :])
    (raw / "kaggle_sample_submission.csv").write_text(f"id,predicted\n{n + val},71 108 339 341 560\n")
    index, guesses = pd.RangeIndex(len(species), name="id"), {"simple": seen.simple, "ceiling": seen.ceiling}
    return {name: pd.DataFrame({"predicted": numbers[p.argmax(axis=1)]}, index) for name, p in guesses.items()}
