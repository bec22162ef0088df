from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.archives import write_zip
from pytest_mlebench.authoring.synthetic import standard

DATES = ["20090328", "20090329", "20090330", "20090331"]


def make(raw: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = 130 + 2 * seed
    number = rng.permutation(n)  # the running number does not follow time
    clips = {}
    for k in range(n):
        date = rng.choice(DATES, p=[0.3, 0.2, 0.3, 0.2])
        clock = rng.choice(["000000", "001500", "123000", "234500"])
        second, tenth = rng.integers(0, 30), rng.integers(0, 3)
        label = int(rng.random() < 0.35)
        name = f"{date}_{clock}_{second:03d}s{tenth}ms_TRAIN{number[k]}_{label}.aif"
        clips[f"train2/{name}"] = b"FORM" + rng.bytes(4)
    # same time, numbers of different length: sorted as text
    for name in ("10099_1", "101010_0", "1100100_1"):
        clips[f"train2/{DATES[2]}_000000_999s9ms_TRAIN{name}.aif"] = b"FORM" + rng.bytes(4)
    write_zip(raw / "train2.zip", {"train2/": b"", **clips})
    names = [f"20090404_000000_0{i}2s0ms_Test{i}.aif" for i in range(4)]
    write_zip(raw / "test2.zip", {f"test2/{name}": b"FORM" for name in names})
    pd.DataFrame({"clip": names, "probability": 0}).to_csv(raw / "sampleSubmission.csv", index=False)


def submissions(public: Path, private: Path, rng: np.random.Generator) -> dict[str, Any]:
    answers = pd.read_csv(private / "test.csv")
    p = np.clip(0.25 + 0.3 * answers.probability + rng.normal(0, 0.25, len(answers)), 0, 1)
    noisy = answers.assign(probability=p)
    return {
        **standard(
            noisy,
            "clip",
            "20090404_000000_012s0ms_Test0.aif",
            "probability",
            "missing_id nan_prediction above_one negative",
        ),
        "noisy_squared": noisy.assign(probability=p**2),
        "ties": noisy.assign(probability=np.round(p * 4) / 4),
        "hard_labels_int": noisy.assign(probability=(p > 0.4).astype(int)),
        "constant": noisy.assign(probability=1),
        "column_order_and_extra": noisy.assign(extra="x")[["extra", "probability", "clip"]],
        "missing_target": noisy[["clip"]],
        "text_in_target": noisy.assign(probability=["whale", *p[1:]]),
    }
