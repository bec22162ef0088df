from pathlib import Path

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.worlds.images import Camera, best_names, draw_prototypes, draw_things, jpeg
from pytest_mlebench.authoring.worlds.labels import by_size, random_names

CHAINS = [0, 1, 2, 3, 5, 87]
HOTELS = 36
SAMPLE = "36363 53586 18807 64314 60181"


def make(raw: Path, rng: np.random.Generator, size: str) -> dict[str, pd.DataFrame]:
    n = by_size(size, 600, 1300, 6000)
    # the world: how hotels furnish their rooms; hotels of a chain use the same colours
    hotels = [*map(int, SAMPLE.split()), *rng.choice(np.arange(1000, 18000), HOTELS - 5, replace=False).tolist()]
    rooms = draw_prototypes(rng, HOTELS, groups=len(CHAINS) + 4)  # chain 0 means no chain
    colours = np.unique(rooms[:, 0], return_inverse=True)[1]
    chain = np.array([*CHAINS, 0, 0, 0, 0])[colours]
    hotel = rng.choice(HOTELS, n, p=rng.dirichlet(np.full(HOTELS, 3)))
    views = draw_things(rng, hotel, rooms, accuracy=0.8)
    upload = pd.to_datetime("2017-01-01") + pd.to_timedelta(rng.integers(0, 900, n), unit="D")  # some share a day
    images = pd.DataFrame(
        {
            "image": [f"{name}.jpg" for name in random_names(rng, n, 16)],
            "chain": chain[hotel],
            "hotel_id": np.array(hotels)[hotel],
            "timestamp": upload + pd.to_timedelta(rng.integers(0, 86400, n), unit="s"),
        }
    )
    images.to_csv(raw / "train.csv", index=False)
    camera = Camera(rng, 64, body=(0.52, 0.46, 0.42), ground=(0.60, 0.56, 0.50))
    for folder in (*(f"train_images/{k}" for k in CHAINS), "test_images"):
        (raw / folder).mkdir(parents=True)
    for image, number, look in zip(images["image"], images["chain"], views.looks, strict=True):
        (raw / f"train_images/{number}" / image).write_bytes(jpeg(camera.cut(rng, look)))
    spare = "99e91ad5f2870678.jpg"
    (raw / "test_images" / spare).write_bytes(jpeg(camera.cut(rng, views.looks[0])))
    pd.DataFrame({"image": [spare], "hotel_id": SAMPLE}).to_csv(raw / "sample_submission.csv", index=False)
    guesses, table = {"simple": views.simple, "ceiling": views.ceiling}, images[["image"]]
    return {name: table.assign(hotel_id=best_names(p, hotels, 5)).set_index("image") for name, p in guesses.items()}
