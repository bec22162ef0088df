from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.archives import ZipWriter
from pytest_mlebench.authoring.rle import decode_rle, encode_rle, pixels
from pytest_mlebench.authoring.synthetic import standard
from pytest_mlebench.authoring.tables import split

from .grade import SIDE

PIXELS = SIDE * SIDE
KINDS = ["box", "slope", "slope", "side", "side", "most", "box", "hundred", "dot", "hundred"]
TEST_KINDS = [
    *("full", "most", "hundred", "side", "hundred", "empty", "dot", "hundred"),
    *("box", "slope", "box", "slope", "box", "slope", "empty", "side"),
]


def make(raw: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = 96 + 8 * seed
    kinds = np.array((["empty"] * 6 + KINDS) * n)[:n]
    rng.shuffle(kinds)
    _, test = split(np.arange(n), test_size=0.25)
    kinds[test[:16]] = TEST_KINDS
    ids = [rng.bytes(5).hex() for _ in range(n)]
    train = pd.DataFrame({"id": ids, "rle_mask": [encode_rle(_mask(rng, kind)) or None for kind in kinds]})
    other_ids = [rng.bytes(5).hex() for _ in range(30)]
    with ZipWriter(raw / "competition_data.zip") as archive:
        archive.write("competition_data/train.csv", train.to_csv(index=False))
        for id in ids:
            archive.write(f"competition_data/train/images/{id}.png", b"\x89PNG" + rng.bytes(2))
            archive.write(f"competition_data/train/masks/{id}.png", b"\x89PNG" + rng.bytes(1))
        for id in other_ids[:3]:
            archive.write(f"competition_data/test/images/{id}.png", b"\x89PNGold")
    everyone = rng.permutation([*ids, *other_ids])
    depths = pd.DataFrame({"id": everyone, "z": rng.integers(50, 960, len(everyone))})
    depths.to_csv(raw / "depths.csv", index=False)
    pd.DataFrame({"id": other_ids, "rle_mask": "1 1"}).to_csv(raw / "sample_submission.csv", index=False)
    train.head(3).to_csv(raw / "train.csv", index=False)  # not used


def _mask(rng: np.random.Generator, kind: str) -> np.ndarray:
    """Return a flat mask, column by column."""
    mask = np.zeros((SIDE, SIDE), bool)  # [column, row]
    if kind == "box":
        x, y = rng.integers(0, 80, 2)
        mask[x : x + rng.integers(2, 25), y : y + rng.integers(2, 60)] = True
    elif kind == "slope":
        top = np.clip(rng.integers(20, 80) + np.cumsum(rng.integers(-2, 3, SIDE)), 0, SIDE)
        left, right = np.sort(rng.integers(0, SIDE, 2))
        for x in range(left, min(right, left + 30) + 1):
            mask[x, top[x] :] = True
    elif kind == "side":
        mask[: rng.integers(5, 50)] = True
    elif kind == "most":
        mask[rng.integers(1, 45) :] = True
    elif kind == "full":
        mask[:] = True
    elif kind == "dot":
        mask[tuple(rng.integers(0, SIDE, 2))] = True
    elif kind == "hundred":
        mask[50, :100] = True
    return mask.ravel()


def _flat(text: str) -> np.ndarray:
    mask = np.zeros(PIXELS, bool)
    mask[pixels(decode_rle(text, PIXELS))] = True
    return mask


def submissions(public: Path, private: Path, rng: np.random.Generator) -> dict[str, Any]:
    answers = pd.read_csv(private / "test.csv", dtype=str).fillna("")
    masks = answers["rle_mask"]
    truth = [_flat(text) for text in masks]

    def build(change: Callable[[np.ndarray], np.ndarray]) -> pd.DataFrame:
        return answers.assign(rle_mask=[encode_rle(change(mask.copy())) or None for mask in truth])

    def noisy(mask: np.ndarray) -> np.ndarray:
        if not mask.any():
            return mask if rng.random() < 0.7 else _mask(rng, "box")
        if rng.random() < 0.1:
            return np.zeros(PIXELS, bool)
        return np.roll(mask, int(rng.integers(-500, 500)) if rng.random() < 0.5 else int(rng.integers(-6, 7)))

    shares = iter(np.tile([50, 55, 60, 65, 70, 75, 80, 85, 90, 95, 96, 56, 66, 91], 20))

    def part(mask: np.ndarray) -> np.ndarray:
        """Keep the first k percent of the true pixels: if they divide evenly, the overlap equals a threshold."""
        marked = np.flatnonzero(mask)
        mask[marked[len(marked) * next(shares) // 100 :]] = False
        return mask

    good = build(noisy)
    hundred = int(np.flatnonzero(masks == "5051 100")[0])  # a row whose truth is pixels 5051 to 5150
    nothing = int(np.flatnonzero(masks == "")[0])
    to_end = next(k for k, mask in enumerate(truth) if mask[-1] and not mask[0] and masks[k].count(" ") == 1)

    def one(value: str, row: int = hundred) -> pd.DataFrame:
        return good.assign(rle_mask=[value if k == row else mask for k, mask in enumerate(good["rle_mask"])])

    return {
        "column_order": good[["rle_mask", "id"]],
        "parts_of_truth": build(part),
        "truth_and_surroundings": build(lambda mask: mask | np.roll(mask, 30) | np.roll(mask, -30)),
        "complement": build(lambda mask: ~mask),
        "all_empty": answers.assign(rle_mask=None),
        "all_full": answers.assign(rle_mask=f"1 {PIXELS}"),
        "all_outside": answers.assign(rle_mask=f"{PIXELS + 1} 7"),
        "rows_instead_of_columns": build(lambda mask: mask.reshape(SIDE, SIDE).T.ravel()),
        "one_pixel_each": answers.assign(rle_mask="5101 1"),
        "beyond_the_end": one(masks[to_end].split()[0] + " 99999", to_end),
        "touching_runs": one("5051 50 5101 50"),
        "surplus_spaces": one("  5051   93 "),
        "plus_sign_and_zeros": one("+05051 0093"),
        "only_spaces": one("   ", nothing),
        "lone_start": one("77", nothing),
        "odd_three": one("5051 60 5111"),
        "odd_five": one("5051 60 5111 5 9000"),
        "overlap": one("5051 60 5080 5"),
        "overlap_outside": one("5051 100 10300 9 10302 5"),
        "unsorted": one("5101 50 5051 50"),
        "zero_length": one("5051 100 9000 0"),
        "zero_start": one("0 30"),
        "negative_length": one("5051 100 9000 -5"),
        "decimals": one("5051.0 100"),
        "text": one("salt"),
        "numbers_everywhere": answers.assign(rle_mask=77),
        "numbers_or_empty": answers.assign(rle_mask=[77 if k % 2 else None for k in range(len(answers))]),
        "extra_column": good.assign(extra="x"),
        "numeric_ids": good.assign(id=range(len(good))),
        "missing_mask": good[["id"]],
        **standard(good, "id", "zzzzzzzzzz", also="nan_id"),
    }
