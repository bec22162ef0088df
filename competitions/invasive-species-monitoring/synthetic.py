from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pytest_mlebench.data.archives import write_7z
from pytest_mlebench.data.synthetic import jpeg_like, malformed_rows, write_zipped_csv


def make(raw: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, n_test = 121 + seed, 5
    # some picture numbers are absent, and the table is in numeric order
    names = np.sort(rng.choice(np.arange(1, n + 30), n, replace=False))
    labels = pd.DataFrame({"name": names, "invasive": (rng.random(n) < 0.63).astype(int)})
    sample = pd.DataFrame({"name": range(1, n_test + 1), "invasive": 0.5})
    for folder, numbers in (("train", names), ("test", sample.name)):
        pictures = {}
        for k in numbers:
            content = f"picture {seed} {k}".encode() + rng.bytes(4)
            pictures[f"{folder}/{k}.jpg"] = jpeg_like(content)
        write_7z(raw / f"{folder}.7z", pictures)
    write_zipped_csv(raw / "train_labels.csv.zip", labels, "train_labels.csv")
    write_zipped_csv(raw / "sample_submission.csv.zip", sample, "sample_submission.csv")


def submissions(public: Path, private: Path, rng: np.random.Generator) -> dict[str, Any]:
    answers = pd.read_csv(private / "answers.csv")
    p = 0.3 * answers.invasive + 0.7 * rng.random(len(answers))
    noisy = answers.assign(invasive=p)
    return {
        **malformed_rows(noisy, "name", 9999),
        "noisy": noisy,
        "noisy_shuffled": noisy.sample(frac=1, random_state=0),
        "ties": noisy.assign(invasive=p.round(1)),
        "constant": noisy.assign(invasive=0.3),
        "hard": noisy.assign(invasive=(p > 0.5).astype(int)),
        "inverted": noisy.assign(invasive=1 - p),
        "tiny": noisy.assign(invasive=p * 1e-300),
        "column_order_and_extra": noisy.assign(extra=1)[["invasive", "extra", "name"]],
        "float_names": noisy.assign(name=noisy.name.astype(float)),
        "names_with_suffix": noisy.assign(name=noisy.name.astype(str) + ".jpg"),
        "missing_column": noisy[["name"]],
        "nan_prediction": noisy.assign(invasive=[None, *p[1:]]),
        "all_nan": noisy.assign(invasive=None),
        "text_prediction": noisy.assign(invasive=["yes", *p[1:]]),
        "above_one": noisy.assign(invasive=[1.0001, *p[1:]]),
        "below_zero": noisy.assign(invasive=[-1e-9, *p[1:]]),
    }
