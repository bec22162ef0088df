from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.archives import write_7z
from pytest_mlebench.authoring.synthetic import first_value, jpeg_like, standard, write_zipped_csv


def make(raw: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, n_test = 121 + seed, 5
    # some image numbers are absent, and the table is in numeric order
    names = np.sort(rng.choice(np.arange(1, n + 30), n, replace=False))
    labels = pd.DataFrame({"name": names, "invasive": (rng.random(n) < 0.63).astype(int)})
    sample = pd.DataFrame({"name": range(1, n_test + 1), "invasive": 0.5})
    for folder, numbers in (("train", names), ("test", sample.name)):
        images = {}
        for k in numbers:
            content = f"picture {seed} {k}".encode() + rng.bytes(4)
            images[f"{folder}/{k}.jpg"] = jpeg_like(content)
        write_7z(raw / f"{folder}.7z", images)
    write_zipped_csv(raw / "train_labels.csv.zip", labels, "train_labels.csv")
    write_zipped_csv(raw / "sample_submission.csv.zip", sample, "sample_submission.csv")


def submissions(public: Path, private: Path, rng: np.random.Generator) -> dict[str, Any]:
    answers = pd.read_csv(private / "answers.csv")
    p = 0.3 * answers.invasive + 0.7 * rng.random(len(answers))
    noisy = answers.assign(invasive=p)
    return {
        **standard(noisy, "name", 9999, "invasive", "missing_column nan_prediction text_prediction"),
        "ties": noisy.assign(invasive=p.round(1)),
        "constant": noisy.assign(invasive=0.3),
        "hard": noisy.assign(invasive=(p > 0.5).astype(int)),
        "inverted": noisy.assign(invasive=1 - p),
        "tiny": noisy.assign(invasive=p * 1e-300),
        "column_order_and_extra": noisy.assign(extra=1)[["invasive", "extra", "name"]],
        "float_names": noisy.assign(name=noisy.name.astype(float)),
        "names_with_suffix": noisy.assign(name=noisy.name.astype(str) + ".jpg"),
        "all_nan": noisy.assign(invasive=None),
        **first_value(noisy, "invasive", above_one=1.0001, below_zero=-1e-09),
    }
