from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

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

    def first(value: Any) -> pd.DataFrame:
        return noisy.assign(Pawpularity=[value, *noisy["Pawpularity"].iloc[1:]])

    return {
        "noisy": noisy,
        "noisy_shuffled": noisy.sample(frac=1, random_state=0),
        "rounded": noisy.assign(Pawpularity=noisy["Pawpularity"].round().astype(int)),
        "constant": answers.assign(Pawpularity=38.04),
        "lower_bound": answers.assign(Pawpularity=1),
        "upper_bound": answers.assign(Pawpularity=100.0),
        "columns_swapped": noisy[["Pawpularity", "Id"]],
        "extra_column": noisy.assign(Eyes=1),
        "below_range": first(0.99),
        "above_range": first(100.01),
        "infinite": first(np.inf),
        "nan_prediction": first(np.nan),
        "as_text": first("cute"),
        "missing_row": noisy.iloc[1:],
        "one_row": noisy.iloc[:1],
        "extra_row": pd.concat([noisy, noisy.tail(1).assign(Id="f" * 32)]),
        "duplicate_row": pd.concat([noisy, noisy.tail(1)]),
        "duplicate_id": pd.concat([noisy.iloc[1:], noisy.tail(1)]),
        "unknown_id": noisy.assign(Id=["0" * 31 + "x", *noisy["Id"].iloc[1:]]),
        "missing_column": noisy[["Id"]],
        "missing_id_column": noisy[["Pawpularity"]],
        "renamed_column": noisy.rename(columns={"Pawpularity": "pawpularity"}),
        "header_only": noisy.iloc[:0],
        "empty.csv": "",
    }
