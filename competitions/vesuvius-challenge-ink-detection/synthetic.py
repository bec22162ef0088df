from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.rle import encode_rle, mask_from_rle
from pytest_mlebench.authoring.synthetic import png


def make(raw: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    for fragment in "123":
        height, width = int(rng.integers(30, 40)), int(rng.integers(45, 60))
        folder = raw / "train" / fragment
        (folder / "surface_volume").mkdir(parents=True)
        ink = _ink(rng, height, width)
        _write_image(folder / "inklabels.png", ink * 255)
        _write_image(folder / "ir.png", rng.integers(0, 256, (height, width)))
        _write_image(folder / "mask.png", np.full((height, width), 255))
        for depth in range(3):
            (folder / "surface_volume" / f"{depth:02d}.tif").write_bytes(b"II*\0" + rng.bytes(12))
        labels = pd.DataFrame({"Id": [fragment], "Predicted": [encode_rle(ink, "C")]})
        labels.to_csv(folder / "inklabels_rle.csv", index=False)
    for fragment in "ab":
        folder = raw / "test" / fragment
        (folder / "surface_volume").mkdir(parents=True)
        _write_image(folder / "mask.png", np.full((4, 4), 255))
        (folder / "surface_volume" / "00.tif").write_bytes(b"II*\0")
    sample = pd.DataFrame({"Id": ["a", "b"], "Predicted": ["1 1 5 1"] * 2})
    sample.to_csv(raw / "sample_submission.csv", index=False)


def _write_image(path: Path, pixels: np.ndarray) -> None:
    path.write_bytes(png(pixels.astype(np.uint8)))


def _ink(rng: np.random.Generator, height: int, width: int) -> np.ndarray:
    mask = np.zeros((height, width), bool)
    for _ in range(5):
        y, x = rng.integers(0, height - 8), rng.integers(0, width - 8)
        mask[y : y + rng.integers(2, 8), x : x + rng.integers(2, 8)] = True
    mask[-1, -3:] = True  # ink up to the last pixel
    mask[3, -2:] = mask[4, :3] = True  # a run across the end of a row
    return mask


def submissions(public: Path, private: Path, rng: np.random.Generator) -> dict[str, Any]:
    answers = pd.read_csv(private / "inklabels_rle.csv")
    height, width = int(answers["height"][0]), int(answers["width"][0])
    size = height * width
    ink = mask_from_rle(answers["Predicted"][0], (height, width), "C")

    def build(predicted: str | np.ndarray) -> pd.DataFrame:
        text = predicted if isinstance(predicted, str) else encode_rle(predicted, "C")
        return pd.DataFrame({"Id": ["a"], "Predicted": [text]})

    true = encode_rle(ink, "C")
    numbers = true.split()
    good = build(ink ^ (rng.random((height, width)) < 0.1))
    return {
        "noisy": good,
        "grown": build(ink | np.roll(ink, 1, 1)),
        "shrunk": build(ink & np.roll(ink, 1, 0)),
        "everything": build(f"1 {size}"),
        "one_pixel_hit": build(f"{numbers[0]} 1"),
        "one_pixel_miss": build("1 1"),
        "column_major": build(ink.T),
        "adjacent_runs": build(" ".join(f"{k + 1} 1" for k in np.flatnonzero(ink))),
        "extra_spaces": build("  " + true.replace(" ", "   ") + " "),
        "blank": build(" "),
        "past_the_end": build(f"1 2 {size - 1} 50"),
        "far_outside": build(f"{true} {size + 100} 5 {size + 100} 5"),
        "odd_three_numbers": build(f"1 {numbers[0]} 9999"),
        "odd_broadcast": build(" ".join(numbers[:3])),
        "odd_count": build(true + " 99999"),
        "single_number": build("5"),
        "empty_prediction": build(""),
        "unsorted": build("100 2 5 2"),
        "overlap": build("5 4 7 2"),
        "same_start": build("5 1 5 1"),
        "zero_start": build("0 3"),
        "zero_length": build("4 0"),
        "negative_length": build("4 -2"),
        "fractions": build("4.0 2.0"),
        "text": build("1 two"),
        "commas": build("1,2,5,3"),
        "column_order": good[["Predicted", "Id"]],
        "extra_column": good.assign(note=1),
        "answers_file": answers,
        "renamed_column": good.rename(columns={"Predicted": "rle"}),
        "missing_column": good[["Predicted"]],
        "wrong_id": good.assign(Id="b"),
        "two_rows": pd.concat([good, good.assign(Id="b")]),
        "duplicate_id": pd.concat([good, good]),
        "header_only": good.head(0),
        "empty.csv": "",
    }
