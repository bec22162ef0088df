import json
from pathlib import Path

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.rle import split_by_category
from pytest_mlebench.authoring.worlds.images import Camera, draw_species, jpeg
from pytest_mlebench.authoring.worlds.labels import by_size
from pytest_mlebench.authoring.worlds.text import lexicon

LICENSE = {"id": 0, "name": "CC BY 4.0", "url": "https://creativecommons.org/licenses/by/4.0/"}


def make(raw: Path, rng: np.random.Generator, size: str) -> dict[str, pd.DataFrame]:
    # the world: what species look like; those of a genus have the same colours
    count, n, spare = by_size(size, (12, 300, 3), (24, 1000, 3), (60, 5000, 20))
    numbers, sheets = draw_species(rng, count, n + spare, below=15505, accuracy=0.85)
    # the real sheets have up to 1000 pixels; their size does not matter
    camera = Camera(rng, 64, body=(0.42, 0.44, 0.30), ground=(0.87, 0.85, 0.78), size=0.65)
    species = pd.Series(numbers[sheets.classes])
    place = species[:n].groupby(species[:n]).cumcount() + 1  # specimens are numbered within their species
    images, annotations = [], []
    for k, (label, look) in enumerate(zip(species.tolist(), sheets.looks, strict=True)):
        id = f"{label:05d}__{place[k]:03d}" if k < n else str(k - n)
        name = f"{label // 100:03d}/{label % 100:02d}/{id}.jpg" if k < n else f"000/test-{k - n:06d}.jpg"
        path = raw / ("train_images" if k < n else "test_images") / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(jpeg(camera.cut(rng, look)))
        images.append({"image_id": id, "file_name": name, "license": 0})
        entry = {"genus_id": label % 7, "institution_id": int(rng.integers(3)), "category_id": label, "image_id": id}
        annotations.append(entry)
    words = [word.title() for word in lexicon(rng, count + 7)]
    metadata = {
        "annotations": annotations[:n],
        "images": images[:n],
        "categories": [
            {
                "category_id": int(id),
                "scientificName": f"{words[id % 7]} {words[7 + k].lower()}",
                "family": f"{words[id % 3]}aceae",
                "genus": words[id % 7],
                "species": words[7 + k].lower(),
                "authors": f"{words[k % 7][:3]}.",
            }
            for k, id in enumerate(numbers)
        ],
        "genera": [{"genus_id": k, "genus": words[k]} for k in range(7)],
        "institutions": [{"institution_id": k, "collectionCode": words[k][:2].upper()} for k in range(3)],
        "distances": [{"genus_id_x": 0, "genus_id_y": k, "distance": 40.0 * k} for k in range(1, 7)],
        "licenses": [LICENSE],
    }
    (raw / "train_metadata.json").write_text(json.dumps(metadata))
    (raw / "test_metadata.json").write_text(json.dumps(images[n:]))
    pd.DataFrame({"Id": range(spare), "Predicted": 42}).to_csv(raw / "sample_submission.csv", index=False)
    _, held_out = split_by_category(species[:n].tolist(), 0.2, few=0)  # like prepare.py
    index = pd.RangeIndex(len(held_out), name="Id")
    guesses = {"simple": sheets.simple, "ceiling": sheets.ceiling}
    return {name: pd.DataFrame({"Predicted": numbers[p[held_out].argmax(1)]}, index) for name, p in guesses.items()}
