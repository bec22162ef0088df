from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.archives import write_zip
from pytest_mlebench.authoring.synthetic import first_value, jpeg_like, standard


def make(raw: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, n_test = 150, 5
    ids = sorted({rng.bytes(16).hex() + ".jpg" for _ in range(n)})
    labels = pd.DataFrame({"id": ids, "has_cactus": (rng.random(n) < 0.75).astype(int)})
    labels.to_csv(raw / "train.csv", index=False)
    images = {f"train/{id}": _image(rng) for id in ids}
    write_zip(raw / "train.zip", {"train/": b"", **images, "train/not_in_the_list.jpg": _image(rng)})
    test_ids = [rng.bytes(16).hex() + ".jpg" for _ in range(n_test)]
    write_zip(raw / "test.zip", {"test/": b"", **{f"test/{id}": _image(rng) for id in test_ids}})
    pd.DataFrame({"id": test_ids, "has_cactus": 0.5}).to_csv(raw / "sample_submission.csv", index=False)


def _image(rng: np.random.Generator) -> bytes:
    return jpeg_like(rng.bytes(int(rng.integers(8, 30))))


def submissions(public: Path, private: Path, rng: np.random.Generator) -> dict[str, Any]:
    answers = pd.read_csv(private / "test.csv")
    n = len(answers)
    good = answers.assign(has_cactus=np.clip(0.35 * answers.has_cactus + 0.3 + 0.3 * rng.standard_normal(n), 0, 1))
    p = good.has_cactus
    return {
        "one_decimal": good.assign(has_cactus=p.round(1)),
        "hard_labels": good.assign(has_cactus=(p > 0.5).astype(int)),
        "booleans": good.assign(has_cactus=p > 0.5),
        "constant": good.assign(has_cactus=0.25),
        "reversed": good.assign(has_cactus=1 - p),
        "very_close_scores": good.assign(has_cactus=p * 1e-12 + 0.5),
        "columns_swapped_with_extra": good.assign(note='x, "y"')[["note", "has_cactus", "id"]],
        "without_suffix": good.assign(id=good.id.str.removesuffix(".jpg")),
        **first_value(good, "has_cactus", one_empty=None, text="high", above_one=1.0001, below_zero=-0.0001),
        "all_empty": good.assign(has_cactus=None),
        **standard(good, "id", "ffff.jpg", "has_cactus", "missing_column renamed_id infinite"),
    }
