from pathlib import Path

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.synthetic import png

from .. import synthetic as first
from ..synthetic import submissions as submissions

BURST, HOTELS = 3, 13


def make(raw: Path, seed: int) -> None:
    """Guests upload several similar images of a hotel within a minute; many hotels have only one image."""
    first.make(raw, seed)
    images = pd.read_csv(raw / "train.csv")
    number = np.arange(len(images))
    images["hotel_id"] = np.where(number % 7 == 0, 100_000 + number, 200_000 + number % HOTELS)
    upload = images.groupby("hotel_id").cumcount() // BURST
    seconds = pd.to_timedelta(images.groupby(["hotel_id", upload]).cumcount(), unit="s")
    images["timestamp"] = pd.to_datetime("2017-01-01 12:00:00") + pd.to_timedelta(upload, unit="D") + seconds
    images.to_csv(raw / "train.csv", index=False)
    rng = np.random.default_rng(seed)
    for _, burst in images.groupby(["hotel_id", upload]):
        room = rng.integers(0, 200, (4, 4), dtype=np.uint8)
        for image, chain in zip(burst["image"], burst["chain"], strict=True):
            # PNG despite its name, because the output of JPEG encoders varies between versions
            photo = png(room + rng.integers(0, 9, room.shape, dtype=np.uint8))
            (raw / "train_images" / str(chain) / image).write_bytes(photo)
