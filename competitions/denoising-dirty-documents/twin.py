from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import softmax

from pytest_mlebench.authoring.archives import write_zip
from pytest_mlebench.authoring.synthetic import png
from pytest_mlebench.authoring.worlds.images import rgb, smooth_noise
from pytest_mlebench.authoring.worlds.labels import by_size

# The real pages have 540 columns and 258 or 420 rows. Smaller pages keep the answers short: a row for each pixel.
FORMATS = [(28, 54), (40, 54)]
INK = 0.85


def make(raw: Path, rng: np.random.Generator, size: str) -> dict[str, pd.DataFrame]:
    n, spare = by_size(size, 20, 55, 200), 2
    # the world: the letters of a made-up script, and how dirty pages are
    letters = rng.random((24, 5, 4)) < 0.5
    stain, speckle = rng.uniform(0.22, 0.30), rng.uniform(0.18, 0.22)
    numbers = rng.choice(np.arange(2, 217), n + spare, replace=False)
    clean, dirty, guesses = {}, {}, []
    for k, number in enumerate(numbers):
        page, places = _page(rng, letters, FORMATS[rng.integers(2)])
        paper = 1 - stain * np.clip(1 + smooth_noise(rng, page.shape, rng.uniform(3, 8)), 0, 2.5)
        for _ in range(rng.integers(1, 4)):
            paper -= 0.2 * (np.abs(_distance(rng, page.shape)) < rng.uniform(0.6, 1.6))  # creases
        paper = np.clip(paper, 0.2, 1)
        seen = rgb(paper * (1 - INK * (1 - page)) + speckle * rng.normal(size=page.shape))
        clean[f"{number}.png"], dirty[f"{number}.png"] = png(rgb(page)), png(seen)
        if k < n:
            guesses.append(_guesses(number, page, seen / 255, _read(seen / 255, paper, speckle, letters, places)))
    for folder, pages in (("train", dirty), ("train_cleaned", clean)):
        write_zip(raw / f"{folder}.zip", {f"{folder}/{p}": pages[p] for p in [*pages][:n]})
    write_zip(raw / "test.zip", {f"test/{page}": dirty[page] for page in [*dirty][n:]})
    table = pd.concat(guesses, ignore_index=True)
    slope, start = np.polyfit(table["seen"], table["clean"], 1)
    table["simple"] = (start + slope * table["seen"]).clip(0, 1)  # a linear fit
    table[["id"]].head(9).assign(value=1).to_csv(raw / "sampleSubmission.csv", index=False)
    values = table.set_index("id").round(4)
    return {name: values[[name]].set_axis(["value"], axis=1) for name in ("simple", "ceiling")}


def _page(
    rng: np.random.Generator, letters: np.ndarray, shape: tuple[int, int]
) -> tuple[np.ndarray, list[tuple[slice, slice]]]:
    """Return lines of letters, black on white, as values from 0 to 1, and the places of the letters."""
    page, places = np.ones(shape), []
    for top in range(2, shape[0] - 6, 8):
        left = int(rng.integers(2, 8))
        while left < shape[1] - rng.integers(6, 16):
            places.append((slice(top, top + 5), slice(left, left + 4)))
            page[places[-1]] -= letters[rng.integers(len(letters))] * rng.uniform(0.8, 1)
            left += 5 if rng.random() < 0.8 else 9
    return page, places


def _distance(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """Return the signed distance of each pixel to a random line."""
    y, x = np.mgrid[: shape[0], : shape[1]]
    angle = rng.uniform(0, np.pi)
    return (y - rng.uniform(0, shape[0])) * np.cos(angle) + (x - rng.uniform(0, shape[1])) * np.sin(angle)


def _read(
    seen: np.ndarray, paper: np.ndarray, speckle: float, letters: np.ndarray, places: list[tuple[slice, slice]]
) -> np.ndarray:
    """Return the page as guessed by a reader who knows the script, the places of letters, and the empty paper."""
    page, drawn = np.ones(seen.shape), 0.9 * letters
    for place in places:
        misfit = ((seen[place] - paper[place] * (1 - INK * drawn)) ** 2).sum(axis=(1, 2)) / (2 * speckle**2)
        page[place] -= np.tensordot(softmax(-misfit), drawn, 1)
    return page


def _guesses(number: int, page: np.ndarray, seen: np.ndarray, best: np.ndarray) -> pd.DataFrame:
    rows, columns = np.indices(page.shape) + 1
    ids = [f"{number}_{row}_{column}" for row, column in zip(rows.ravel(), columns.ravel(), strict=True)]
    return pd.DataFrame({"id": ids, "clean": page.ravel(), "seen": seen.ravel(), "ceiling": best.ravel()})
