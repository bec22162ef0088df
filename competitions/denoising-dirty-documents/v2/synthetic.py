from pathlib import Path

import numpy as np

from pytest_mlebench.authoring.archives import write_zip
from pytest_mlebench.authoring.synthetic import png

from ..synthetic import submissions as submissions

PAGES, NOISES = 8, 4


def make(raw: Path, seed: int) -> None:
    """Each page occurs with several kinds of noise, each under its own number."""
    rng = np.random.default_rng(seed)
    numbers = (int(number) for number in rng.permutation(np.arange(2, 2 + PAGES * NOISES)))
    noisy, clean = {}, {}
    for _ in range(PAGES):
        page = np.where(rng.random((7, 9)) < 0.3, rng.integers(0, 90, (7, 9)), 255).astype(np.uint8)
        for kind in range(NOISES):
            name = f"{next(numbers)}.png"
            clean[name] = png(page if kind else np.repeat(page[:, :, None], 3, axis=2))  # grey, or the same in colour
            noisy[name] = png(np.clip(page - rng.integers(0, 60, page.shape), 0, 255).astype(np.uint8))
    for folder, files in (("train", noisy), ("train_cleaned", clean)):
        write_zip(raw / f"{folder}.zip", {f"{folder}/": b""} | {f"{folder}/{name}": files[name] for name in files})
