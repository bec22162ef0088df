import random
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image
from scipy.fft import dct

from pytest_mlebench.authoring.worlds.images import jpeg, smooth_noise
from pytest_mlebench.authoring.worlds.labels import by_size

from .prepare import METHODS, choose

SIDE, FIELD = 512, 1024
_COSINES = dct(np.eye(8), norm="ortho", axis=0)
WAVES = np.kron(_COSINES, _COSINES).astype(np.float32)
"""A block of 64 pixels, row by row, times the transpose of this gives the block's coefficients."""
FREQUENCY = np.add.outer(np.arange(8), np.arange(8)).ravel()
BANDS = [2, 3, 4, 5]
"""The sum of both frequencies, for the coefficients that may hide a message."""
LENGTHS = {75: 26112, 90: 38400, 95: 54272}
"""Size of each file in bytes, by quality, so that its size does not reveal a hidden message."""


def make(
    raw: Path,
    rng: np.random.Generator,
    size: str,
    generator: Callable[[Path, list[str]], random.Random] = lambda raw, test: random.Random(0),
) -> dict[str, pd.DataFrame]:
    n, spare = by_size(size, 100, 152, 500), 2
    # the world: which frequencies each method changes, and how many of their coefficients
    bands = dict(zip(METHODS, rng.permutation([[2, 3], [3, 4], [4, 5]]), strict=True))
    rate = rng.uniform(0.08, 0.1)
    fields = {scale: smooth_noise(rng, (FIELD, FIELD), scale).astype(np.float32) for scale in (0.8, 2.5, 40)}
    for folder in ("Cover", *METHODS, "Test"):
        (raw / folder).mkdir()
    rows = {}
    for number in np.sort(rng.choice(np.arange(1, 75001), n + spare, replace=False)):
        quality = int(rng.choice([75, 90, 95], p=[0.87, 0.09, 0.04]))
        table = _quantization(quality)
        light = _photo(rng, fields)
        cover = np.rint(_blocks(light - 128) @ WAVES.T / table)
        load, hues = rate * rng.uniform(0.5, 1.5), rng.integers(110, 146, 2).tolist()
        for folder in ("Cover", *METHODS) if len(rows) < 4 * n else ("Test",):
            changed, count = cover.copy(), 0
            if folder in bands:
                places = np.flatnonzero(np.isin(FREQUENCY, bands[folder]))
                count = int(load * len(cover) * len(places))
                where = rng.integers(len(cover), size=count), rng.choice(places, count)
                changed[where] += rng.choice(np.array([-1, 1], np.float32), count)
            (raw / folder / f"{number:05d}.jpg").write_bytes(_file(changed * table, hues, quality))
            busy = [np.log((changed[:, band == FREQUENCY] != 0).mean()) for band in BANDS]
            rows[folder, f"{number:05d}.jpg"] = quality, float(sum(busy)), float(count)
    names = [f"{k:04d}.jpg" for k in range(1, spare + 1)]
    pd.DataFrame({"Id": names, "Label": 0}).to_csv(raw / "sample_submission.csv", index=False)
    return _guesses(pd.DataFrame.from_dict(rows, "index", columns=["quality", "simple", "ceiling"]), raw, generator)


def _guesses(
    features: pd.DataFrame, raw: Path, generator: Callable[[Path, list[str]], random.Random]
) -> dict[str, pd.DataFrame]:
    """Return as predictions the share of nonzero coefficients, standardised by quality, and the number of changes.

    A good detector misses almost none, so only the truth is a ceiling.
    """
    features.index = pd.MultiIndex.from_tuples(features.index)
    for quality, covers in features.loc["Cover"].groupby("quality"):
        at = features["quality"] == quality
        features.loc[at, "simple"] = (features.loc[at, "simple"] - covers["simple"].mean()) / covers["simple"].std()
    _, test = choose(raw)
    drawn = generator(raw, test)  # like prepare.py, which chooses the version of each test image
    drawn.shuffle(test)
    folders = ["Cover" if drawn.choice([True, False]) else drawn.choice(METHODS) for _ in test]
    chosen = features.loc[list(zip(folders, test, strict=True))]
    ids = pd.Index([f"{k:04d}.jpg" for k in range(1, len(test) + 1)], name="Id")
    return {name: pd.DataFrame({"Label": chosen[name].to_numpy().round(5)}, ids) for name in ("simple", "ceiling")}


def _photo(rng: np.random.Generator, fields: dict[float, np.ndarray]) -> np.ndarray:
    """Return the brightness of a picture: shape (512, 512)."""
    parts = []
    for field in fields.values():
        top, left = rng.integers(FIELD - SIDE, size=2)
        parts.append(field[top : top + SIDE, left : left + SIDE])
    texture, grain = rng.uniform(2.5, 5.5), rng.uniform(1.3, 1.5)
    return 128 + 25 * parts[2] + texture * parts[1] * (1 + 0.5 * parts[2]) + grain * parts[0]


def _quantization(quality: int) -> np.ndarray:
    """Return Pillow's quantization table for brightness at this quality: shape (64,)."""
    steps = Image.open(BytesIO(jpeg(np.zeros((8, 8), np.uint8), quality=quality))).quantization[0]
    return np.array(steps, np.float32)


def _blocks(plane: np.ndarray) -> np.ndarray:
    """Split an image of shape (512, 512) into blocks: shape (4096, 64)."""
    return plane.reshape(SIDE // 8, 8, SIDE // 8, 8).swapaxes(1, 2).reshape(-1, 64).astype(np.float32)


def _file(coefficients: np.ndarray, hues: list[int], quality: int) -> bytes:
    """Return a JPEG file with these coefficients of brightness; rounding to pixels is too small to change them."""
    plane = (coefficients @ WAVES).reshape(SIDE // 8, SIDE // 8, 8, 8).swapaxes(1, 2).reshape(SIDE, SIDE)
    light = np.clip(np.rint(plane + 128), 0, 255).astype(np.uint8)
    colours = [Image.new("L", (SIDE, SIDE), hue) for hue in hues]
    return jpeg(Image.merge("YCbCr", [Image.fromarray(light), *colours]), quality=quality, block=LENGTHS[quality])
