from pathlib import Path

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.archives import write_zip
from pytest_mlebench.authoring.worlds.images import jpeg, smooth_noise
from pytest_mlebench.authoring.worlds.labels import by_size
from pytest_mlebench.authoring.worlds.scans import tube

SIDE, CELL, LENGTH = 96, 20, 7000  # pixels of a page (about 3000 in reality) and of a character; bytes of a file
PAGES = 10
"""Number of pages in a book."""


def make(raw: Path, rng: np.random.Generator, size: str) -> dict[str, pd.DataFrame]:
    books, others = by_size(size, (52, 2), (80, 4), (200, 10))
    # the world: made-up characters. Every second one resembles the previous one; some are frequent
    codes = [f"U+{code:04X}" for code in rng.permutation(np.arange(0x3041, 0x3094))[: by_size(size, 8, 14, 30)]]
    strokes = [np.cumsum(rng.normal(0, 0.6, (5, 2)), axis=0) for _ in codes]
    for k in range(1, len(codes), 2):
        strokes[k] = np.vstack([strokes[k - 1][:3], strokes[k][3:] - strokes[k][2] + strokes[k - 1][2]])
    frequency = 1 / np.arange(3, len(codes) + 3)
    rows, guesses = [], {"simple": [], "ceiling": []}
    pictures: dict[str, dict[str, bytes]] = {"train": {}, "test": {}}
    for number in rng.permutation(99_000)[:books]:
        hand = rng.normal(0, 0.12), rng.uniform(0.8, 1.2), rng.uniform(0.6, 0.9)  # slant, size, thickness
        for page in rng.choice(90, PAGES, replace=False):
            name = f"{100241706 + number}_{page:05d}_{rng.integers(1, 3)}"
            picture, boxes = _page(strokes, frequency / frequency.sum(), hand, rng)
            pictures["train"][f"{name}.jpg"] = picture
            labels, points = [], {"simple": [], "ceiling": []}
            for kind, (x, y, width, height) in boxes:
                given = codes[rng.integers(len(codes)) if rng.random() < 0.03 else kind]
                labels.append(f"{given} {x} {y} {width} {height}")
                place = f"{x + width // 2} {y + height // 2}"
                points["ceiling"].append(f"{codes[kind]} {place}")
                alike = rng.choice([kind, kind - kind % 2, rng.integers(len(codes))], p=[0.35, 0.25, 0.4])
                points["simple"].append(f"{codes[alike]} {place}")
            rows.append((name, " ".join(labels)))
            for guess, found in points.items():
                guesses[guess].append(" ".join(found))
    table = pd.DataFrame(rows, columns=["image_id", "labels"])
    order = rng.permutation(len(table))
    table.iloc[order].to_csv(raw / "train.csv", index=False)
    for k in range(others):
        pictures["test"][f"test_{k:08x}.jpg"] = _page(strokes, frequency / frequency.sum(), (0, 1, 0.7), rng)[0]
    for side, members in pictures.items():
        write_zip(raw / f"{side}_images.zip", dict(sorted(members.items())))
    names = [name.removesuffix(".jpg") for name in pictures["test"]]
    sample = pd.DataFrame({"image_id": names, "labels": "U+003F 1 1 U+FF2F 2 2"})
    sample.to_csv(raw / "sample_submission.csv", index=False)
    known = "".join(f"{code},{chr(int(code[2:], 16))}\n" for code in sorted(codes))
    (raw / "unicode_translation.csv").write_text(f"Unicode,char\n{known}", encoding="utf-8")
    index = pd.Index(table["image_id"], name="image_id")
    return {name: pd.DataFrame({"labels": texts}, index) for name, texts in guesses.items()}


def _page(
    strokes: list[np.ndarray], frequency: np.ndarray, hand: tuple[float, float, float], rng: np.random.Generator
) -> tuple[bytes, list[tuple[int, tuple[int, int, int, int]]]]:
    """Return a JPEG file, and the number, x, y, width and height of each character on it."""
    slant, scale, thickness = hand
    ink, boxes = np.zeros((SIDE, SIDE)), []
    left = rng.integers(1, 10)
    for x in range(left, SIDE - CELL, CELL + int(rng.integers(1, 5))):
        top = rng.integers(1, 20)
        for y in range(top, SIDE - CELL + 1, CELL):
            if rng.random() < 0.35:
                continue
            kind = int(rng.choice(len(strokes), p=frequency))
            points = strokes[kind] + rng.normal(0, 0.06, strokes[kind].shape)
            points = (points - points.min(axis=0)) / np.ptp(points, axis=0).max()
            points = 0.5 + 0.75 * min(scale, 1.15) * (points - points.max(axis=0) / 2)
            points[:, 0] += slant * (points[:, 1] - 0.5)
            drawn = tube((CELL, CELL), np.clip(points, 0.03, 0.97), thickness)
            ink[y : y + CELL, x : x + CELL] += drawn
            rows, columns = np.flatnonzero(drawn.max(axis=1) > 0.3), np.flatnonzero(drawn.max(axis=0) > 0.3)
            box = (x + columns[0], y + rows[0], np.ptp(columns) + 1, np.ptp(rows) + 1)
            boxes.append((kind, tuple(int(side) for side in box)))
    if not boxes:
        return _page(strokes, frequency, hand, rng)
    stain = 8 * smooth_noise(rng, (SIDE, SIDE), 8) + 6 * smooth_noise(rng, (SIDE, SIDE), 1)
    paper = np.array([225, 210, 180]) + rng.normal(0, 6, 3) + stain[..., None]
    page = paper * (1 - rng.uniform(0.5, 0.75) * np.minimum(ink, 1))[..., None]
    page = page + rng.normal(0, 4, page.shape)
    return jpeg(np.clip(np.rint(page), 0, 255).astype(np.uint8), block=LENGTH), boxes
