from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pytest_mlebench.data.synthetic import malformed_rows


def make(raw: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, n_test = 110 + seed, 34 + seed
    ids = [_id(rng) for _ in range(n)]
    (raw / "train").mkdir()
    (raw / "test").mkdir()
    for id in ids:
        (raw / "train" / f"{id}.tif").write_bytes(b"II*\0" + rng.bytes(4))
    # an image without a label, and in test/ things that are no .tif: neither may count
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
        **malformed_rows(noisy, "id", "f" * 39 + "g"),
        "noisy": noisy,
        "noisy_shuffled": noisy.sample(frac=1, random_state=0),
        "noisy_inverted": noisy.assign(label=1 - p),
        "ties": noisy.assign(label=np.round(p * 3) / 3),
        "hard_labels_int": noisy.assign(label=(p > 0.45).astype(int)),
        "booleans": noisy.assign(label=p > 0.45),
        "constant": noisy.assign(label=0.3),
        "tiny_differences": noisy.assign(label=0.5 + p * 1e-15),
        "column_order_and_extra": noisy.assign(extra="x")[["extra", "label", "id"]],
        "missing_target": noisy[["id"]],
        "missing_id": noisy[["label"]],
        "renamed_column": noisy.rename(columns={"label": "LABEL"}),
        "nan_prediction": noisy.assign(label=[None, *p[1:]]),
        "all_nan": noisy.assign(label=None),
        "negative": noisy.assign(label=[-1e-9, *p[1:]]),
        "above_one": noisy.assign(label=[1.0000001, *p[1:]]),
        "infinite": noisy.assign(label=[np.inf, *p[1:]]),
        "text_in_target": noisy.assign(label=["high", *p[1:]]),
        "all_text": noisy.assign(label="yes"),
    }
