import json
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.worlds.images import Camera, Things, draw_species, jpeg
from pytest_mlebench.authoring.worlds.labels import by_size
from pytest_mlebench.authoring.worlds.text import lexicon

from .prepare import DETECTIONS, TEST, TRAIN

KINDS, EMPTY = 14, 0
INFO = {"version": "1.0", "description": "cameras", "contributor": "", "date_created": "2020-01-01 00:00:00"}


def make(raw: Path, rng: np.random.Generator, size: str) -> dict[str, pd.DataFrame]:
    traps, each = by_size(size, (40, 8), (90, 11), (250, 20))
    n = traps * each
    # the world: what animals look like; those of a genus have the same colours, and a third of the images is empty
    numbers, seen = draw_species(rng, KINDS, n, below=673, accuracy=0.82)
    numbers, is_empty = numbers + 2, rng.random(n) < 0.35
    images = _take(raw, rng, seen, is_empty, each)
    truth = np.where(is_empty, EMPTY, numbers[seen.classes]).tolist()
    annotations = [
        {"count": 0 if label == EMPTY else 1, "image_id": image["id"], "id": _uuid(rng), "category_id": label}
        for label, image in zip(truth, images, strict=True)
    ]
    order, cut = rng.permutation(n - each).tolist(), n - each  # the last camera has the old test images
    categories = [{"count": 0, "id": 0, "name": "empty"}] + [
        {"count": truth.count(id), "id": id, "name": f"{first} {second}"}
        for id, first, second in zip(numbers.tolist(), lexicon(rng, KINDS), lexicon(rng, KINDS), strict=True)
    ]
    content = {
        "annotations": [annotations[k] for k in rng.permutation(cut)],
        "images": [images[k] for k in order],
        "categories": categories,
        "info": {**INFO, "year": 2020},
    }
    (raw / TRAIN).write_text(json.dumps(content))
    old = {"images": images[cut:], "categories": categories, "info": {**INFO, "year": 2020}}
    (raw / TEST).write_text(json.dumps(old))
    detections = {
        "images": [_detection(rng, image["id"], bool(is_empty[k])) for k, image in enumerate(images)],
        "detection_categories": {"1": "animal", "2": "person"},
        "info": {"detector": "made-up"},
    }
    (raw / DETECTIONS).write_text(json.dumps(detections))
    ids = pd.Index([image["id"] for image in images], name="Id")
    pd.DataFrame({"Id": ids[cut:], "Category": 0}).to_csv(raw / "sample_submission.csv", index=False)
    guesses = {"simple": seen.simple, "ceiling": seen.ceiling}
    best = {name: np.where(is_empty, EMPTY, numbers[p.argmax(axis=1)]) for name, p in guesses.items()}
    return {name: pd.DataFrame({"Category": categories}, ids) for name, categories in best.items()}


def _take(raw: Path, rng: np.random.Generator, seen: Things, is_empty: np.ndarray, each: int) -> list[dict[str, Any]]:
    """Write images of each camera, which does not move; returns their entries for the annotations file."""
    camera = Camera(rng, 64, body=(0.46, 0.42, 0.36), ground=(0.36, 0.42, 0.30), reach=0.4, size=0.5, clutter=0.1)
    locations, images = rng.permutation(np.arange(1, 560)), []
    for folder in ("train", "test"):
        (raw / folder).mkdir()
    for k, look in enumerate(seen.looks):
        if k % each == 0:
            background = camera.ground(rng)
        if k % each % 3 == 0:
            sequence, day = _uuid(rng), f"2013-0{rng.integers(1, 10)}-{rng.integers(1, 29):02d}"
        id = _uuid(rng)
        scene = background if is_empty[k] else camera.add(background, rng, look)
        folder = "train" if k < len(seen.looks) - each else "test"
        (raw / folder / f"{id}.jpg").write_bytes(jpeg(camera.develop(scene, rng)))
        image = {
            "seq_num_frames": 3,
            "location": int(locations[k // each]),
            "datetime": f"{day} 14:49:0{k % each % 3}.000",
            "id": id,
            "frame_num": k % each % 3 + 1,
            "seq_id": sequence,
            "width": 64,
            "height": 64,
            "file_name": f"{id}.jpg",
        }
        images.append(image)
    return images


def _detection(rng: np.random.Generator, id: str, is_empty: bool) -> dict[str, Any]:
    """Return the detector's result, which is right for nine images in ten, but has a random box."""
    found = bool(rng.random() < (0.1 if is_empty else 0.9))
    box = {"category": "1", "bbox": rng.uniform(0.2, 0.5, 4).round(4).tolist(), "conf": 0.9}
    return {"detections": [box] if found else [], "id": id, "max_detection_conf": 0.9 if found else 0.0}


def _uuid(rng: np.random.Generator) -> str:
    return str(uuid.UUID(bytes=rng.bytes(16)))
