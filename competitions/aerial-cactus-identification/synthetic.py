from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pytest_mlebench.data.archives import write_zip
from pytest_mlebench.data.synthetic import jpeg_like


def make(raw: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, n_test = 150, 5
    ids = sorted({rng.bytes(16).hex() + ".jpg" for _ in range(n)})
    labels = pd.DataFrame({"id": ids, "has_cactus": (rng.random(n) < 0.75).astype(int)})
    labels.to_csv(raw / "train.csv", index=False)
    pictures = {f"train/{id}": _picture(rng) for id in ids}
    write_zip(raw / "train.zip", {"train/": b"", **pictures, "train/not_in_the_list.jpg": _picture(rng)})
    test_ids = [rng.bytes(16).hex() + ".jpg" for _ in range(n_test)]
    write_zip(raw / "test.zip", {"test/": b"", **{f"test/{id}": _picture(rng) for id in test_ids}})
    pd.DataFrame({"id": test_ids, "has_cactus": 0.5}).to_csv(raw / "sample_submission.csv", index=False)


def _picture(rng: np.random.Generator) -> bytes:
    return jpeg_like(rng.bytes(int(rng.integers(8, 30))))


def submissions(public: Path, private: Path, rng: np.random.Generator) -> dict[str, Any]:
    answers = pd.read_csv(private / "test.csv")
    n = len(answers)
    good = answers.assign(has_cactus=np.clip(0.35 * answers.has_cactus + 0.3 + 0.3 * rng.standard_normal(n), 0, 1))
    p = good.has_cactus
    return {
        "noisy": good,
        "noisy_shuffled": good.sample(frac=1, random_state=3),
        "one_decimal": good.assign(has_cactus=p.round(1)),
        "hard_labels": good.assign(has_cactus=(p > 0.5).astype(int)),
        "booleans": good.assign(has_cactus=p > 0.5),
        "constant": good.assign(has_cactus=0.25),
        "reversed": good.assign(has_cactus=1 - p),
        "very_close_scores": good.assign(has_cactus=p * 1e-12 + 0.5),
        "columns_swapped_with_extra": good.assign(note='x, "y"')[["note", "has_cactus", "id"]],
        "missing_column": good[["id"]],
        "renamed_id": good.rename(columns={"id": "image_id"}),
        "missing_row": good.iloc[:-1],
        "extra_row": pd.concat([good, good.head(1).assign(id="ffff.jpg")]),
        "duplicate_id": pd.concat([good.iloc[:-1], good.head(1)]),
        "unknown_id": good.assign(id=["0" * 32 + ".jpg", *good.id.iloc[1:]]),
        "without_suffix": good.assign(id=good.id.str.removesuffix(".jpg")),
        "one_empty": good.assign(has_cactus=[None, *p.iloc[1:]]),
        "all_empty": good.assign(has_cactus=None),
        "text": good.assign(has_cactus=["high", *p.iloc[1:]]),
        "above_one": good.assign(has_cactus=[1.0001, *p.iloc[1:]]),
        "below_zero": good.assign(has_cactus=[-0.0001, *p.iloc[1:]]),
        "infinite": good.assign(has_cactus=[np.inf, *p.iloc[1:]]),
        "header_only": good.head(0),
        "empty.csv": "",
    }
