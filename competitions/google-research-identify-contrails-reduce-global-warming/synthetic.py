import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.rle import encode_rle, mask_from_rle
from pytest_mlebench.authoring.synthetic import first_value, standard

HEIGHT, WIDTH = 14, 11
PIXELS = HEIGHT * WIDTH


def make(raw: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, n_validation, n_test = 45, 22, 2
    ids = [str(int(rng.integers(10**15, 9 * 10**18))) for _ in range(n + n_validation + n_test)]
    train, validation, test = ids[:n], ids[n : n + n_validation], ids[n + n_validation :]
    for name, text in (
        ("train", json.dumps([_record(rng, id) for id in train], indent=1, ensure_ascii=False)),
        ("validation", json.dumps([_record(rng, id) for id in validation], ensure_ascii=False) + "\n"),
        ("test", "[]"),
    ):
        (raw / f"{name}_metadata.json").write_text(text, encoding="utf-8")
    for id in train:
        folder = _bands(rng, raw / "train" / id, 9)
        np.save(folder / "human_pixel_masks.npy", _mask(rng).astype(np.int8))
        (folder / "human_individual_masks.npy").write_bytes(rng.bytes(4))
    for id in validation[:3]:
        folder = _bands(rng, raw / "validation" / id, 2)
        np.save(folder / "human_pixel_masks.npy", _mask(rng).astype(np.int8))
    for id in test:
        _bands(rng, raw / "test" / id, 2)
    sample = pd.DataFrame({"record_id": test, "encoded_pixels": "1 3 10 5"})
    sample.to_csv(raw / "sample_submission.csv", index=False)


def _record(rng: np.random.Generator, id: str) -> dict[str, Any]:
    return {
        "record_id": id,
        "row_min": float(rng.normal(0, 1e6)),
        "row_size": 2004.0173154875,
        "col_min": float(rng.integers(-(10**6), 10**6)),
        "col_size": 2004.0173154875,
        "projection_wkt": 'PROJCS["café",GEOGCS["unnamed"]]',
        "timestamp": float(rng.integers(1554000000, 1586000000)) + 0.25 * int(rng.integers(4)),
        "small": 1e-07 * float(rng.integers(1, 9)),
    }


def _bands(rng: np.random.Generator, folder: Path, count: int) -> Path:
    folder.mkdir(parents=True)
    first = np.zeros((HEIGHT, WIDTH, 1), dtype=np.uint8) + rng.integers(0, 200, dtype=np.uint8)
    np.save(folder / "band_08.npy", first)
    for band in range(9, 8 + count):  # only the first band is opened
        (folder / f"band_{band:02d}.npy").write_bytes(rng.bytes(4))
    return folder


def _mask(rng: np.random.Generator) -> np.ndarray:
    mask = np.zeros((HEIGHT, WIDTH, 1), dtype=np.int32)
    kind = rng.integers(4)
    if kind == 1:  # a slanted line
        for k in range(rng.integers(4, 10)):
            mask[(k + 2) % HEIGHT, k % WIDTH] = 1
    elif kind == 2:  # a box, sometimes up to the edge
        row, column = rng.integers(0, HEIGHT - 3), rng.integers(0, WIDTH - 2)
        mask[row : row + rng.integers(2, 9), column : column + rng.integers(1, 6)] = 1
    elif kind == 3:  # specks, including the first and last pixel
        mask[rng.random(mask.shape) < 0.15] = 1
        mask[0, 0], mask[-1, -1] = 1, rng.integers(2)
    return mask


def submissions(public: Path, private: Path, rng: np.random.Generator) -> dict[str, Any]:
    answers = pd.read_csv(private / "answers.csv", dtype=str)[["record_id", "encoded_pixels"]]
    masks = [mask_from_rle(text.replace("-", ""), (HEIGHT, WIDTH)) for text in answers["encoded_pixels"]]
    flat = [mask.ravel("F") for mask in masks]

    def build(predicted: list[np.ndarray]) -> pd.DataFrame:
        return answers.assign(encoded_pixels=[encode_rle(mask) or "-" for mask in predicted])

    noisy = build([mask ^ (rng.random(PIXELS) < 0.08) for mask in flat])
    spaced = "  " + noisy["encoded_pixels"].str.replace(" ", "  ").where(noisy["encoded_pixels"] != "-", " ")
    return {
        "dilated": build([mask | np.roll(mask, HEIGHT) for mask in flat]),
        "row_by_row": build([mask.ravel("C") for mask in masks]),
        "all_empty": answers.assign(encoded_pixels="-"),
        "all_blank": answers.assign(encoded_pixels=" "),
        "everything": answers.assign(encoded_pixels=f"1 {PIXELS}"),
        "extra_spaces": noisy.assign(encoded_pixels=spaced),
        "columns_swapped_and_extra": noisy.assign(height=1, width=1)[
            ["encoded_pixels", "width", "height", "record_id"]
        ],
        **first_value(noisy, "encoded_pixels", beyond_the_end=f"{PIXELS - 1} 50 {PIXELS + 100} 3"),
        **first_value(noisy, "encoded_pixels", adjacent_runs="1 3 4 2 6 1", single_number="7", three_numbers="1 3 10"),
        **first_value(noisy, "encoded_pixels", five_numbers="1 3 10 2 20", overlapping_runs="1 5 3 2"),
        **first_value(noisy, "encoded_pixels", unsorted_runs="10 5 1 3", start_zero="0 3", negative_start="-4 3"),
        **first_value(noisy, "encoded_pixels", length_zero="4 0", fraction="1.0 3", not_numbers="a b"),
        **first_value(noisy, "encoded_pixels", dash_and_run="- 1 3"),
        "duplicate_for_missing": pd.concat([noisy.iloc[1:], noisy.tail(1)]),
        "missing_id_column": noisy[["encoded_pixels"]],
        **standard(
            noisy,
            "record_id",
            "1",
            "encoded_pixels",
            "missing_column nan_prediction",
            without="duplicate_id header_only",
        ),
    }
