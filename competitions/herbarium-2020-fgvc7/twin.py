import json
from pathlib import Path

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.rle import split_by_category
from pytest_mlebench.authoring.worlds.images import Camera, draw_species, jpeg
from pytest_mlebench.authoring.worlds.labels import by_size
from pytest_mlebench.authoring.worlds.text import lexicon

SIDE = 64  # the real sheets have up to 1000 pixels; their size does not matter
INFO = {"contributor": "garden", "date_created": "2020-01-01", "description": "sheets", "url": "", "version": "1.0"}


def make(raw: Path, rng: np.random.Generator, size: str) -> dict[str, pd.DataFrame]:
    # the world: what species look like; those of a genus have the same colours
    count, n, spare = by_size(size, (12, 300, 2), (24, 1000, 2), (60, 5000, 20))
    numbers, sheets = draw_species(rng, count, n + spare, below=32094, accuracy=0.85)
    camera = Camera(rng, SIDE, body=(0.46, 0.44, 0.28), ground=(0.86, 0.83, 0.74), size=0.65)
    ids, species = rng.permutation(10 * (n + spare))[: n + spare].tolist(), numbers[sheets.classes].tolist()
    train, test = raw / "nybg2020/train", raw / "nybg2020/test"
    images, annotations = [], []
    for k, (id, label, look) in enumerate(zip(ids, species, sheets.looks, strict=True)):
        name = f"images/{label // 100:03d}/{label % 100:02d}/{id}.jpg" if k < n else f"images/000/{k - n}.jpg"
        path = (train if k < n else test) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(jpeg(camera.take(rng, look)))
        images.append({"file_name": name, "height": SIDE, "id": id, "license": 1, "width": SIDE})
        region = int(rng.integers(4))
        annotations.append({"category_id": label, "id": id + 70000, "image_id": id, "region_id": region})
    common = {"info": {**INFO, "year": 2020}, "licenses": [{"id": 1, "name": "CC", "url": ""}]}
    words = [word.title() for word in lexicon(rng, count + 8)]
    categories = [
        {"family": f"{words[k % 3]}aceae", "genus": words[k % 8], "id": int(id), "name": words[8 + k]}
        for k, id in enumerate(numbers)
    ]
    metadata = {
        "annotations": annotations[:n],
        "images": images[:n],
        "categories": categories,
        **common,
        "regions": [{"id": k, "name": f"region {k}"} for k in range(4)],
    }
    (train / "metadata.json").write_text(json.dumps(metadata), encoding="latin-1")
    unlabelled = [{**image, "id": str(k)} for k, image in enumerate(images[n:])]
    (test / "metadata.json").write_text(json.dumps({"images": unlabelled, **common}))
    pd.DataFrame({"Id": range(spare), "Predicted": 0}).to_csv(raw / "sample_submission.csv", index=False)
    _, held_out = split_by_category(species[:n], 0.2)  # like prepare.py, which renumbers the test images
    index = pd.RangeIndex(len(held_out), name="Id")
    guesses = {"simple": sheets.simple, "ceiling": sheets.ceiling}
    return {name: pd.DataFrame({"Predicted": numbers[p[held_out].argmax(1)]}, index) for name, p in guesses.items()}
