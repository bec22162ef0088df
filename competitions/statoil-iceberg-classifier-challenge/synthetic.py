import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.archives import write_7z
from pytest_mlebench.authoring.synthetic import first_value, standard

SIDE = 4  # the real images are 75 x 75


def make(raw: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = 118 + seed
    ids = [_hexadecimal(rng) for _ in range(n)]
    ids[:4] = [f"{int(rng.integers(1e7, 9e7))}" for _ in range(4)]  # ids that read as numbers
    ids[4:7] = [f"{int(rng.integers(1000, 9999))}e{int(rng.integers(100, 999))}" for _ in range(3)]
    order = rng.permutation(n)
    train = [_image(rng, ids[k], int(rng.random() < 0.47)) for k in order]
    test = [_image(rng, _hexadecimal(rng)) for _ in range(15)]
    test[0] = {key: test[0][key] for key in ("id", "band_1", "inc_angle", "band_2")}  # the order in the new test file
    sample = pd.DataFrame({"id": [image["id"] for image in test], "is_iceberg": 0.5})
    members = {
        "train.json": json.dumps(train),
        "test.json": json.dumps(test),
        "sample_submission.csv": sample.to_csv(index=False),
    }
    for name, content in members.items():
        write_7z(raw / f"{name}.7z", {f"data/processed/{name}": content})


def _hexadecimal(rng: np.random.Generator) -> str:
    return "".join(rng.choice(list("0123456789abcdef"), 8))


def _image(rng: np.random.Generator, id: str, label: int | None = None) -> dict[str, Any]:
    angle = "na" if rng.random() < 0.1 else round(float(rng.uniform(30, 46)), 4)
    image = {"id": id, "band_1": _band(rng), "band_2": _band(rng), "inc_angle": angle}
    if label is not None:
        image["is_iceberg"] = label
    return dict(reversed(image.items())) if rng.random() < 0.2 else image


def _band(rng: np.random.Generator) -> list[float]:
    band: list[float] = rng.normal(-22, 6, SIDE * SIDE).astype(np.float32).astype(float).tolist()
    band[1:4] = [round(band[1], 2), int(band[2]), 1e-07 * rng.integers(1, 9)]  # long and short decimals, integers
    return band


def submissions(public: Path, private: Path, rng: np.random.Generator) -> dict[str, Any]:
    answers = pd.read_csv(private / "test.csv", dtype={"id": str})
    truth = answers["is_iceberg"].to_numpy()
    p = np.clip(0.5 + 0.25 * (2 * truth - 1) + rng.normal(0, 0.2, len(truth)), 0.01, 0.99)
    noisy = answers.assign(is_iceberg=p)
    hard = np.where(rng.random(len(truth)) < 0.2, 1 - truth, truth)

    return {
        "hard_mistakes": noisy.assign(is_iceberg=hard),
        "hard_mistakes_float": noisy.assign(is_iceberg=hard.astype(float)),
        "all_zero": noisy.assign(is_iceberg=0),
        "all_one": noisy.assign(is_iceberg=1.0),
        "beyond_clipping": noisy.assign(is_iceberg=np.where(hard == 1, 1 - 1e-16, 1e-30)),
        "near_clipping": noisy.assign(is_iceberg=np.where(hard == 1, 1 - 1e-14, 1e-14)),
        "booleans": noisy.assign(is_iceberg=hard == 1),
        "column_order_and_extra": noisy.assign(extra="x")[["extra", "is_iceberg", "id"]],
        "repeated_row": pd.concat([noisy, noisy.tail(1)]),
        "missing_target": noisy[["id"]],
        **first_value(noisy, "is_iceberg", text_in_target="iceberg"),
        **standard(noisy, "id", "zzzz", "is_iceberg", "missing_id nan_prediction above_one negative"),
    }
