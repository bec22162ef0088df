from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.synthetic import standard

from .grade import STATES


def make(raw: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, n_test = 220 + 10 * seed, 12
    (raw / "images").mkdir()
    state = rng.permutation(np.arange(n) % 4)
    train = pd.DataFrame({"image_id": [f"Train_{i}" for i in range(n)]})
    train = train.assign(**{name: (state == k).astype(int) for k, name in enumerate(STATES)})
    test = pd.DataFrame({"image_id": [f"Test_{i}" for i in range(n_test)]})
    for id in train.image_id:
        (raw / "images" / f"{id}.jpg").write_bytes(b"\xff\xd8" + rng.bytes(3))
    for id in test.image_id:
        (raw / "images" / f"{id}.jpg").write_bytes(b"\xff\xd8old")
    train.to_csv(raw / "train.csv", index=False)
    test.to_csv(raw / "test.csv", index=False)
    test.assign(**dict.fromkeys(STATES, 0.25)).to_csv(raw / "sample_submission.csv", index=False)


def submissions(public: Path, private: Path, rng: np.random.Generator) -> dict[str, Any]:
    answers = pd.read_csv(private / "test.csv")
    truth = answers[STATES].to_numpy()
    p = np.clip(0.2 + 0.3 * truth + rng.normal(0, 0.25, truth.shape), 0, 1)

    def table(scores: np.ndarray) -> pd.DataFrame:
        return answers[["image_id"]].join(pd.DataFrame(scores, columns=STATES))

    noisy = table(p)

    def cell(value: Any) -> pd.DataFrame:
        return noisy.assign(multiple_diseases=np.array([value, *p[1:, 1]], dtype=object))

    return {
        **standard(
            noisy,
            "image_id",
            "Test_9999",
            "scab",
            "missing_column missing_id renamed_column nan_prediction text_prediction infinite",
        ),
        "column_order": noisy[["scab", "rust", "image_id", "multiple_diseases", "healthy"]],
        "ties": table(p.round(1)),
        "one_constant_column": noisy.assign(rust=0.5),
        "logits": table(p * 20 - 10),
        "hard_ints": table((p > 0.4).astype(int)),
        "inverted": table(1 - p),
        "negative_value": cell(-3),
        "extra_column": noisy.assign(extra=0),
        "original_ids": noisy.assign(image_id=noisy.image_id.str.lower()),
    }
