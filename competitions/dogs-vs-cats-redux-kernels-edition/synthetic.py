from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pytest_mlebench.data.archives import write_zip
from pytest_mlebench.data.synthetic import jpeg_like, malformed_rows


def make(raw: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    # unequal numbers of cats and dogs, gaps in the numbering: names must be sorted as text
    cats = np.sort(rng.choice(130, 102, replace=False))
    dogs = np.sort(rng.choice(150, 128, replace=False))
    pictures = [(f"train/cat.{i}.jpg", _picture(rng, 30)) for i in cats]
    pictures += [(f"train/dog.{i}.jpg", _picture(rng, 180)) for i in dogs]
    order = rng.permutation(len(pictures))
    write_zip(raw / "train.zip", [("train/", b""), *(pictures[i] for i in order)])
    write_zip(raw / "test.zip", {"test/": b"", **{f"test/{i}.jpg": _picture(rng, 100) for i in range(1, 6)}})
    pd.DataFrame({"id": range(1, 6), "label": 0.5}).to_csv(raw / "sample_submission.csv", index=False)


def _picture(rng: np.random.Generator, shade: int) -> bytes:
    return jpeg_like((shade + rng.integers(0, 40, (4, 4), dtype=np.uint8)).tobytes())


def submissions(public: Path, private: Path, rng: np.random.Generator) -> dict[str, Any]:
    answers = pd.read_csv(private / "answers.csv")
    noise = rng.normal(0, 0.2, len(answers))
    noisy = answers.assign(label=(0.25 + 0.5 * answers.label + noise).clip(0.01, 0.99))
    rest = noisy.label.iloc[1:]
    return {
        **malformed_rows(noisy, "id", 10**6),
        "noisy": noisy,
        "noisy_shuffled": noisy.sample(frac=1, random_state=3),
        "one_certain_mistake": answers.assign(label=np.where(answers.id == 1, 1 - answers.label, answers.label)),
        "inverted": answers.assign(label=1 - answers.label),
        "nearly_zero": answers.assign(label=1e-300),
        "constant_03": answers.assign(label=0.3),
        "columns_swapped_and_extra": noisy.assign(w=1)[["label", "w", "id"]],
        "ids_as_floats": noisy.assign(id=noisy.id.astype(float)),
        "above_one": noisy.assign(label=[1.2, *rest]),
        "negative": noisy.assign(label=[-0.1, *rest]),
        "duplicate_id": pd.concat([noisy, noisy.tail(1)]),
        "duplicate_for_missing": pd.concat([noisy.iloc[1:], noisy.tail(1)]),
        "unknown_id": noisy.assign(id=[0, *noisy.id.iloc[1:]]),
        "file_names_as_ids": noisy.assign(id=noisy.id.astype(str) + ".jpg"),
        "missing_column": noisy[["id"]],
        "missing_id_column": noisy[["label"]],
        "nan_prediction": noisy.assign(label=[None, *rest]),
        "text_prediction": noisy.assign(label=["dog", *rest]),
        "booleans": answers.assign(label=answers.label.astype(bool)),
    }
