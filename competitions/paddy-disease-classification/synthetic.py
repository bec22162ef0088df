from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.synthetic import standard

LABELS = [
    *("bacterial_leaf_blight", "bacterial_leaf_streak", "bacterial_panicle_blight", "blast", "brown_spot"),
    *("dead_heart", "downy_mildew", "hispa", "normal", "tungro"),
]
FREQUENCIES = [0.05, 0.04, 0.03, 0.17, 0.09, 0.14, 0.06, 0.15, 0.17, 0.10]


def make(raw: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, n_test = 110, 12
    number = np.sort(rng.choice(np.arange(100001, 110408), n, replace=False))
    train = pd.DataFrame(
        {
            "image_id": [f"{k}.jpg" for k in rng.permutation(number)],
            "label": np.r_[LABELS, rng.choice(LABELS, n - len(LABELS), p=FREQUENCIES)],
            "variety": rng.choice(["ADT45", "KarnatakaPonni", "Ponni", "AndraPonni", "RR", "IR20"], n),
            "age": rng.integers(45, 83, n),
        }
    )
    train = train.sort_values(["label", "image_id"], kind="stable")
    train.to_csv(raw / "train.csv", index=False)
    for label in LABELS:
        (raw / "train_images" / label).mkdir(parents=True)
    for name, label in zip(train.image_id, train.label, strict=True):
        content = f"{name}{rng.integers(10**6)}".encode()
        (raw / "train_images" / label / name).write_bytes(b"\xff\xd8" + content + b"\xff\xd9")
    test = pd.DataFrame({"image_id": [f"{200001 + k}.jpg" for k in range(n_test)], "label": ""})
    test.to_csv(raw / "sample_submission.csv", index=False)
    (raw / "test_images").mkdir()
    for name in test.image_id:
        (raw / "test_images" / name).write_bytes(name.encode())


def submissions(public: Path, private: Path, rng: np.random.Generator) -> dict[str, Any]:
    answers = pd.read_csv(private / "test.csv")[["image_id", "label"]]
    n = len(answers)
    noisy = answers.assign(label=np.where(rng.random(n) < 0.4, rng.choice(LABELS, n), answers.label))
    labels, position = noisy.label, np.arange(n)
    return {
        **standard(noisy, "image_id", "999999.jpg", "label", "missing_column renamed_column nan_id"),
        "column_order_extra": noisy.assign(extra=1.5)[["extra", "label", "image_id"]],
        "constant": noisy.assign(label="normal"),
        "some_empty": noisy.assign(label=labels.where(position % 4 > 0)),
        "all_empty": noisy.assign(label=""),
        "upper_case": noisy.assign(label=labels.str.upper()),
        "trailing_space": noisy.assign(label=labels + " "),
        "unknown_label": noisy.assign(label=labels.where(position % 3 > 0, "rust")),
        "as_numbers": noisy.assign(label=labels.map(LABELS.index)),
        "mixed_numbers": noisy.assign(label=labels.where(position % 3 > 0, "7")),
    }
