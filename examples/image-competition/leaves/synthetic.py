from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.synthetic import png, standard
from pytest_mlebench.authoring.tables import read_text_csv


def make(raw: Path, seed: int) -> None:
    """120 small images of 40 plants; rust is a red spot."""
    rng = np.random.default_rng(seed)
    rusty = rng.integers(0, 2, 120)
    ids = [f"{number:05}" for number in rng.permutation(1000)[:120]]
    (raw / "images").mkdir()
    for id, is_rusty in zip(ids, rusty, strict=True):
        pixels = rng.integers(0, 60, (8, 8, 3), dtype=np.uint8)
        pixels[..., 1] += 120
        if is_rusty:
            pixels[3:5, 3:5, 0] = 250
        (raw / "images" / f"{id}.png").write_bytes(png(pixels))
    table = pd.DataFrame({"id": ids, "plant": [f"p{number // 3}" for number in range(120)], "rusty": rusty})
    table.to_csv(raw / "labels.csv", index=False)


def submissions(public: Path, private: Path, rng: np.random.Generator) -> dict[str, Any]:
    answers = read_text_csv(private / "test.csv", numbers=["rusty"]).drop(columns="plant")
    noisy = answers.assign(rusty=(0.6 * answers["rusty"] + 0.4 * rng.random(len(answers))).round(3))
    also = "missing_column missing_id nan_prediction text_prediction above_one negative"
    return standard(noisy, "id", -1, "rusty", also)
