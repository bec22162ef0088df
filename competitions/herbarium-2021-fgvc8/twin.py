import json
from pathlib import Path

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.rle import split_by_category
from pytest_mlebench.authoring.worlds.images import Camera, draw_species, jpeg
from pytest_mlebench.authoring.worlds.labels import by_size
from pytest_mlebench.authoring.worlds.text import lexicon

INFO = {"contributor": "nobody", "date_created": "2021-02-27", "description": "herbarium", "url": "", "version": "1.0"}


def make(raw: Path, rng: np.random.Generator, size: str) -> dict[str, pd.DataFrame]:
    # the world: what species look like; those of a genus have the same colours
    count, n, spare = by_size(size, (12, 300, 3), (24, 1000, 3), (60, 5000, 20))
    numbers, sheets = draw_species(rng, count, n + spare, below=64500, accuracy=0.85)
    # the real sheets have up to 1000 pixels; their size does not matter
    camera = Camera(rng, 64, body=(0.44, 0.46, 0.30), ground=(0.88, 0.84, 0.76), size=0.65)
    ids, species = (1 + rng.permutation(900 * (n + spare))[: n + spare]).tolist(), numbers[sheets.classes].tolist()
    images, annotations = [], []
    for k, (id, label, look) in enumerate(zip(ids, species, sheets.looks, strict=True)):
        name = f"images/{label // 100:03d}/{label % 100:02d}/{id}.jpg" if k < n else f"images/000/{k - n}.jpg"
        path = raw / ("train" if k < n else "test") / name
        path.parent.mkdir(parents=True, exist_ok=True)
        sheet = camera.cut(rng, look)
        path.write_bytes(jpeg(sheet))
        height, width = sheet.shape[:2]
        images.append({"id": id, "width": width, "height": height, "file_name": name, "license": 1})
        institution = int(rng.integers(5))
        annotations.append({"id": 2 * id + 1, "image_id": id, "category_id": label, "institution_id": institution})
    common = {"info": {**INFO, "year": 2021}, "licenses": [{"id": 1, "name": "licence 1", "url": ""}]}
    words = [word.title() for word in lexicon(rng, count + 5)]
    categories = [
        {"id": int(id), "name": f"{words[5 + k]} {words[k % 5].lower()}", "family": words[k % 4], "order": words[4]}
        for k, id in enumerate(numbers)
    ]
    metadata = {
        "annotations": annotations[:n],
        "images": images[:n],
        "categories": categories,
        "institutions": [{"id": k, "name": f"Garden {k}"} for k in range(5)],
        **common,
    }
    (raw / "train" / "metadata.json").write_text(json.dumps(metadata))
    unlabelled = [{**image, "id": str(k)} for k, image in enumerate(images[n:])]
    (raw / "test" / "metadata.json").write_text(json.dumps({"images": unlabelled, **common}))
    pd.DataFrame({"Id": range(spare), "Predicted": 0}).to_csv(raw / "sample_submission.csv", index=False)
    _, held_out = split_by_category(species[:n], 0.2)  # like prepare.py, which renumbers the test images
    index = pd.RangeIndex(len(held_out), name="Id")
    guesses = {"simple": sheets.simple, "ceiling": sheets.ceiling}
    return {name: pd.DataFrame({"Predicted": numbers[p[held_out].argmax(1)]}, index) for name, p in guesses.items()}
