from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.synthetic import first_value, standard


def make(raw: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, n_test = 110 + seed, 34 + seed
    ids = [_id(rng) for _ in range(n)]
    (raw / "train").mkdir()
    (raw / "test").mkdir()
    for id in ids:
        (raw / "train" / f"{id}.tif").write_bytes(b"II*\0" + rng.bytes(4))
    # an image without a label, and entries of test/ that are not .tif files: both must be ignored
    (raw / "train" / f"{_id(rng)}.tif").write_bytes(b"II*\0none")
    for _ in range(n_test):
        (raw / "test" / f"{_id(rng)}.tif").write_bytes(b"II*\0" + rng.bytes(4))
    (raw / "test" / "Thumbs.db").write_bytes(b"x")
    (raw / "test" / "note.tiff").write_bytes(b"x")
    labels = pd.DataFrame({"id": ids, "label": (rng.random(n) < 0.4).astype(int)})
    labels.to_csv(raw / "train_labels.csv", index=False)
    sample = pd.DataFrame({"id": [_id(rng) for _ in range(n_test)], "label": 0})
    sample.to_csv(raw / "sample_submission.csv", index=False)


def _id(rng: np.random.Generator) -> str:
    return "".join(rng.choice(list("0123456789abcdef"), 40))


def submissions(public: Path, private: Path, rng: np.random.Generator) -> dict[str, Any]:
    answers = pd.read_csv(private / "answers.csv")
    p = np.clip(0.25 + 0.35 * answers.label + rng.normal(0, 0.25, len(answers)), 0, 1)
    noisy = answers.assign(label=p)
    return {
        **standard(noisy, "id", "f" * 39 + "g", "label", "missing_id renamed_column all_text nan_prediction infinite"),
        "noisy_inverted": noisy.assign(label=1 - p),
        "ties": noisy.assign(label=np.round(p * 3) / 3),
        "hard_labels_int": noisy.assign(label=(p > 0.45).astype(int)),
        "booleans": noisy.assign(label=p > 0.45),
        "constant": noisy.assign(label=0.3),
        "tiny_differences": noisy.assign(label=0.5 + p * 1e-15),
        "column_order_and_extra": noisy.assign(extra="x")[["extra", "label", "id"]],
        "missing_target": noisy[["id"]],
        "all_nan": noisy.assign(label=None),
        **first_value(noisy, "label", negative=-1e-09, above_one=1.0000001, text_in_target="high"),
    }
