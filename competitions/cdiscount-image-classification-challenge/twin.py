from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image

from pytest_mlebench.authoring.worlds.images import Camera, draw_species, jpeg
from pytest_mlebench.authoring.worlds.labels import by_size
from pytest_mlebench.authoring.worlds.text import lexicon

from .synthetic import binary, document, element, int32

SIDE, ENLARGED = 60, 180


def make(raw: Path, rng: np.random.Generator, size: str) -> dict[str, pd.DataFrame]:
    # the world: what the products of a category look like; related categories share colours
    count, n, spare = by_size(size, (12, 500, 3), (24, 1000, 5), (60, 5000, 30))
    numbers, products = draw_species(rng, count, n + spare, below=22000, accuracy=0.85)
    numbers = numbers + 1_000_000_235
    camera = Camera(rng, SIDE, body=(0.50, 0.46, 0.44), ground=(0.92, 0.92, 0.92), clutter=0.02)
    ids = (np.cumsum(rng.integers(1, 4, n + spare))).tolist()
    documents = []
    for k, (id, look) in enumerate(zip(ids, products.looks, strict=True)):
        pictures = [_picture(camera, rng, look) for _ in range(rng.choice([1, 2, 3, 4], p=[0.85, 0.1, 0.03, 0.02]))]
        images = document(*(element(0x03, str(j), document(binary("picture", p))) for j, p in enumerate(pictures)))
        parts = [int32("_id", id), element(0x04, "imgs", images)]
        if k < n:
            parts.append(int32("category_id", int(numbers[products.classes[k]])))
        documents.append(document(*parts))
    (raw / "train.bson").write_bytes(b"".join(documents[:n]))
    (raw / "train_example.bson").write_bytes(b"".join(documents[:100]))
    (raw / "test.bson").write_bytes(b"".join(documents[n:]))
    words = [word.upper() for word in lexicon(rng, 2 * count)]
    levels = {f"category_level{level}": rng.choice(words[: 3 * level], count) for level in (1, 2)}
    names = pd.DataFrame({"category_id": numbers, **levels, "category_level3": words[count:]})
    names.to_csv(raw / "category_names.csv", index=False)
    table = pd.DataFrame({"_id": ids})
    table[n:].assign(category_id=1000010653).to_csv(raw / "sample_submission.csv", index=False)
    guesses = {"simple": products.simple, "ceiling": products.ceiling}
    return {name: table.assign(category_id=numbers[p.argmax(axis=1)]).set_index("_id") for name, p in guesses.items()}


def _picture(camera: Camera, rng: np.random.Generator, look: np.ndarray) -> bytes:
    """Return a picture of 180 x 180 pixels, like the real ones. It is enlarged from a smaller one, which is faster."""
    small = Image.fromarray(camera.take(rng, look))
    return jpeg(np.asarray(small.resize((ENLARGED, ENLARGED), Image.Resampling.BILINEAR)), quality=75, block=8192)
