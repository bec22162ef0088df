from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image

from pytest_mlebench.authoring.rle import encode_rle
from pytest_mlebench.authoring.synthetic import png
from pytest_mlebench.authoring.worlds.images import coarse, deal_tiles, ellipse, grey, mix_tiles, sloppy, smooth_noise
from pytest_mlebench.authoring.worlds.scans import tube

SLICES, TILE = 65, 16
SHAPES = {"micro": (64, 64), "small": (112, 160), "medium": (240, 320)}  # several thousand pixels in the real data


def make(raw: Path, rng: np.random.Generator, size: str) -> dict[str, pd.DataFrame]:
    # the world: what letters look like, and how ink on the surface shows in the slices above and below it
    letters = [np.cumsum(rng.normal(0, 0.5, (rng.integers(3, 6), 2)), axis=0) for _ in range(8)]
    profile = rng.choice([-1, 1]) * np.exp(-(((np.arange(-8, 9) - rng.uniform(-3, 3)) / 3) ** 2))
    shape = SHAPES[size]
    for part, fragment in [("test", name) for name in "ab"] + [("train", name) for name in "123"]:
        folder = raw / part / fragment
        (folder / "surface_volume").mkdir(parents=True)
        heights = _ink(letters, shape if part == "train" else (32, 32), rng)
        inside = ellipse(heights.shape, np.array(heights.shape) / 2, 0.62 * np.array(heights.shape)) > 0
        ink = (heights > 0) & inside
        for number, pixels in enumerate(_volume(ink, inside, profile, rng)):
            Image.fromarray(pixels).save(folder / "surface_volume" / f"{number:02d}.tif")
        (folder / "mask.png").write_bytes(png(inside.astype(np.uint8) * 255))
        if part == "train":
            drawn = sloppy(rng, heights, 0.8) & inside
            (folder / "inklabels.png").write_bytes(png(drawn.astype(np.uint8) * 255))
            texts = pd.DataFrame({"Id": [fragment], "Predicted": [encode_rle(drawn, "C")]})
            texts.to_csv(folder / "inklabels_rle.csv", index=False)
            seen = 0.8 * smooth_noise(rng, shape, 2) - 1.5 * ink
            (folder / "ir.png").write_bytes(png(np.where(inside, grey(seen), 0).astype(np.uint8)))
    sample = pd.DataFrame({"Id": ["a", "b"], "Predicted": ["1 1 5 1"] * 2})
    sample.to_csv(raw / "sample_submission.csv", index=False)
    # ``ink`` is that of the third fragment, which is the test; the rough mask finds part of it
    rough = coarse(ink & (smooth_noise(rng, shape, 6) > -0.3), 1.5) | (
        coarse(smooth_noise(rng, shape, 5) > 1.2, 1) & inside
    )
    return {
        name: pd.DataFrame({"Predicted": [encode_rle(mask, "C")]}, pd.Index(["a"], name="Id"))
        for name, mask in (("simple", rough), ("ceiling", ink))
    }


def mix(submission: pd.DataFrame, other: pd.DataFrame, share: float, rng: np.random.Generator) -> pd.DataFrame:
    """Mix tiles of the image, because there is only one image."""
    texts = submission["Predicted"].iloc[0], other["Predicted"].iloc[0]
    mixed = mix_tiles(*texts, _shape(other), share, rng, order="C", tile=TILE)
    return submission.assign(Predicted=mixed or submission["Predicted"])


def deal(submission: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    dealt = deal_tiles(submission["Predicted"].iloc[0], _shape(submission), rng, order="C", tile=TILE)
    return submission.assign(Predicted=dealt)


def _shape(submission: pd.DataFrame) -> tuple[int, int]:
    """Return the shape of the image, which is the smallest one that fits the mask."""
    last = sum(map(int, submission["Predicted"].iloc[0].split()[-2:]))
    return next(shape for shape in SHAPES.values() if last <= shape[0] * shape[1] + 1)


def _ink(letters: list[np.ndarray], shape: tuple[int, int], rng: np.random.Generator) -> np.ndarray:
    """Return lines of letters as heights, which are above 0 at ink."""
    heights = np.full(shape, -1.0)
    for y in np.arange(16, shape[0] - 8, 26):
        for x in np.arange(16, shape[1] - 8, 24):
            letter = letters[rng.integers(len(letters))]
            points = [x, y] + 9 * (letter - letter.mean(axis=0)) / np.abs(letter - letter.mean(axis=0)).max()
            heights = np.maximum(heights, 3 * tube(shape, points / shape[::-1], 1.8) - 1.5)
    return heights + 0.3 * smooth_noise(rng, shape, 2)


def _volume(ink: np.ndarray, inside: np.ndarray, profile: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return uint16 of shape (SLICES, height, width): papyrus around an uneven surface, with ink on it."""
    surface = np.rint(SLICES / 2 + 1.5 * smooth_noise(rng, ink.shape, 20)).astype(int)
    depth = np.arange(SLICES)[:, None, None] - surface
    fibres = smooth_noise(rng, (SLICES, *ink.shape), (2, 1, 5)) + smooth_noise(rng, (SLICES, *ink.shape), (2, 5, 1))
    near = np.abs(depth) <= len(profile) // 2
    shown = np.where(near, profile[np.clip(depth + len(profile) // 2, 0, len(profile) - 1)], 0) * ink
    papyrus = np.exp(-((depth / 14.0) ** 2))
    values = papyrus * (1 + 0.35 * fibres + rng.uniform(1.3, 1.6) * shown) + 0.12 * rng.normal(size=depth.shape)
    return np.where(inside, np.clip(np.rint(12000 + 12000 * values), 0, 65535), 0).astype(np.uint16)
