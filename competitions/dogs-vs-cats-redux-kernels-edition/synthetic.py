from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.archives import write_zip
from pytest_mlebench.authoring.synthetic import jpeg_like, standard


def make(raw: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    # unequal numbers of cats and dogs, and gaps in the numbering: names must be sorted as text
    cats = np.sort(rng.choice(130, 102, replace=False))
    dogs = np.sort(rng.choice(150, 128, replace=False))
    images = [(f"train/cat.{i}.jpg", _image(rng, 30)) for i in cats]
    images += [(f"train/dog.{i}.jpg", _image(rng, 180)) for i in dogs]
    order = rng.permutation(len(images))
    write_zip(raw / "train.zip", [("train/", b""), *(images[i] for i in order)])
    write_zip(raw / "test.zip", {"test/": b"", **{f"test/{i}.jpg": _image(rng, 100) for i in range(1, 6)}})
    pd.DataFrame({"id": range(1, 6), "label": 0.5}).to_csv(raw / "sample_submission.csv", index=False)


def _image(rng: np.random.Generator, shade: int) -> bytes:
    return jpeg_like((shade + rng.integers(0, 40, (4, 4), dtype=np.uint8)).tobytes())


def submissions(public: Path, private: Path, rng: np.random.Generator) -> dict[str, Any]:
    answers = pd.read_csv(private / "answers.csv")
    noise = rng.normal(0, 0.2, len(answers))
    noisy = answers.assign(label=(0.25 + 0.5 * answers.label + noise).clip(0.01, 0.99))
    return {
        **standard(noisy, "id", 10**6, "label", "missing_column nan_prediction text_prediction above_one negative"),
        "one_certain_mistake": answers.assign(label=np.where(answers.id == 1, 1 - answers.label, answers.label)),
        "inverted": answers.assign(label=1 - answers.label),
        "nearly_zero": answers.assign(label=1e-300),
        "constant_03": answers.assign(label=0.3),
        "columns_swapped_and_extra": noisy.assign(w=1)[["label", "w", "id"]],
        "ids_as_floats": noisy.assign(id=noisy.id.astype(float)),
        "duplicate_for_missing": pd.concat([noisy.iloc[1:], noisy.tail(1)]),
        "file_names_as_ids": noisy.assign(id=noisy.id.astype(str) + ".jpg"),
        "missing_id_column": noisy[["label"]],
        "booleans": answers.assign(label=answers.label.astype(bool)),
    }
