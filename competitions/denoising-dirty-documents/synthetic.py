from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.archives import write_zip
from pytest_mlebench.authoring.synthetic import png, standard

GRAYS = np.repeat(np.arange(256, dtype=np.uint8)[:, None], 3, axis=1)


def make(raw: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    numbers = [2, 3, 5, 6, 8, 9, 11, 12, 14, 15, 17, 18, 20, 21, 101, 102, 110, 111, 200, 201 + seed]
    noisy, clean = {}, {}
    for number in numbers:
        shape = (7, 9) if number % 2 else (5, 9)  # two page formats, neither square
        page = np.where(rng.random(shape) < 0.2, rng.integers(0, 90, shape), 255).astype(np.uint8)
        page[0, 0], page[-1, -1] = 0, rng.integers(1, 255)
        noisy[f"{number}.png"] = png(np.clip(page - rng.integers(0, 120, shape), 0, 255).astype(np.uint8))
        clean[f"{number}.png"] = _encode(page, number, coloured=number == numbers[3 + seed])
    write_zip(raw / "train.zip", {"train/": b""} | {f"train/{name}": page for name, page in noisy.items()})
    write_zip(
        raw / "train_cleaned.zip",
        {"train_cleaned/": b""} | {f"train_cleaned/{name}": page for name, page in clean.items()},
    )
    write_zip(raw / "test.zip", {"test/": b"", "test/1.png": noisy["2.png"], "test/4.png": noisy["3.png"]})
    ids = [f"1_{row}_{column}" for row in range(1, 6) for column in range(1, 10)]
    pd.DataFrame({"id": ids, "value": 1}).to_csv(raw / "sampleSubmission.csv", index=False)


def _encode(page: np.ndarray, number: int, *, coloured: bool) -> bytes:
    """Encode most pages as grayscale, and some with colour, a palette or transparency, to test the conversion."""
    if coloured:
        return png(np.stack([page, 255 - page, page // 2], axis=-1))
    if number % 5 == 0:
        return png(page, palette=GRAYS)
    if number % 7 == 0:
        return png(np.stack([page, page, page, np.full_like(page, 255)], axis=-1))
    return png(page)


def submissions(public: Path, private: Path, rng: np.random.Generator) -> dict[str, Any]:
    answers = pd.read_csv(private / "answers.csv")
    values = np.clip(answers.value + rng.normal(0, 0.2, len(answers)), 0, 1)
    noisy = answers.assign(value=values)
    return {
        **standard(noisy, "id", "9999_1_1", "value", "missing_column nan_prediction text_prediction infinite"),
        "white": noisy.assign(value=1.0),
        "black": noisy.assign(value=0),
        "out_of_range": noisy.assign(value=values * 3 - 1),
        "as_255": noisy.assign(value=(values * 255).round().astype(int)),
        "rounded": noisy.assign(value=values.round(2)),
        "booleans": noisy.assign(value=values > 0.5),
        "column_order_and_extra": noisy.assign(a=1, z="x")[["value", "z", "id", "a"]],
        "huge": noisy.assign(value=values * 1e100),
        "missing_id_column": noisy[["value"]],
    }
