from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.synthetic import first_value, standard

FLAGS = [
    "Subject Focus",
    "Eyes",
    "Face",
    "Near",
    "Action",
    "Accessory",
    "Group",
    "Collage",
    "Human",
    "Occlusion",
    "Info",
    "Blur",
]


def make(raw: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    train = _table(rng, 187)
    train["Pawpularity"] = np.clip(rng.normal(38, 22, len(train)).round(), 1, 100).astype(int)
    train.loc[:3, "Pawpularity"] = [1, 100, 100, 1]
    train.to_csv(raw / "train.csv", index=False)
    _write_photos(raw / "train", train["Id"], rng)
    test = _table(rng, 4)
    test.to_csv(raw / "test.csv", index=False)
    _write_photos(raw / "test", test["Id"], rng)
    sample = test[["Id"]].assign(Pawpularity=[65.11, 1.5, 99.25, 30.0])
    sample.to_csv(raw / "sample_submission.csv", index=False)


def _table(rng: np.random.Generator, n: int) -> pd.DataFrame:
    table = pd.DataFrame({"Id": [rng.bytes(16).hex() for _ in range(n)]})
    return table.assign(**{flag: (rng.random(n) < 0.3).astype(int) for flag in FLAGS})


def _write_photos(folder: Path, ids: Iterable[str], rng: np.random.Generator) -> None:
    folder.mkdir()
    for id in ids:
        (folder / f"{id}.jpg").write_bytes(b"\xff\xd8" + rng.bytes(12) + b"\xff\xd9")


def submissions(public: Path, private: Path, rng: np.random.Generator) -> dict[str, Any]:
    answers = pd.read_csv(private / "test.csv")[["Id", "Pawpularity"]]
    truth = answers["Pawpularity"]
    noisy = answers.assign(Pawpularity=np.clip(truth + rng.normal(0, 12, len(truth)), 1, 100))

    return {
        "rounded": noisy.assign(Pawpularity=noisy["Pawpularity"].round().astype(int)),
        "constant": answers.assign(Pawpularity=38.04),
        "lower_bound": answers.assign(Pawpularity=1),
        "upper_bound": answers.assign(Pawpularity=100.0),
        "columns_swapped": noisy[["Pawpularity", "Id"]],
        "extra_column": noisy.assign(Eyes=1),
        **first_value(noisy, "Pawpularity", below_range=0.99, above_range=100.01, as_text="cute"),
        "one_row": noisy.iloc[:1],
        "duplicate_row": pd.concat([noisy, noisy.tail(1)]),
        "missing_id_column": noisy[["Pawpularity"]],
        **standard(noisy, "Id", "f" * 32, "Pawpularity", "missing_column renamed_column nan_prediction infinite"),
    }
