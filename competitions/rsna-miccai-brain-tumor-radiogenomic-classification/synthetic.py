from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.synthetic import standard

SERIES = ["FLAIR", "T1w", "T1wCE", "T2w"]


def make(raw: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, n_test = 132, 4
    numbers = rng.choice(1010, n + n_test, replace=False)
    train = [f"{number:05d}" for number in np.sort(numbers[:n])]
    test = [f"{number:05d}" for number in np.sort(numbers[n:])]
    labels = pd.DataFrame({"BraTS21ID": train, "MGMT_value": rng.integers(0, 2, n)})
    labels.to_csv(raw / "train_labels.csv", index=False)
    pd.DataFrame({"BraTS21ID": test, "MGMT_value": 0.5}).to_csv(raw / "sample_submission.csv", index=False)
    for part, subjects in (("train", train), ("test", test)):
        for subject in subjects:  # the number of slices varies, and some series are missing
            for series in SERIES if rng.random() < 0.3 else rng.choice(SERIES, 1):
                folder = raw / part / subject / series
                folder.mkdir(parents=True)
                for number in rng.choice(range(1, 200), rng.integers(1, 3), replace=False):
                    (folder / f"Image-{number}.dcm").write_bytes(b"DICM" + rng.bytes(8))


def submissions(public: Path, private: Path, rng: np.random.Generator) -> dict[str, Any]:
    answers = pd.read_csv(private / "test.csv", dtype={"BraTS21ID": str})
    noisy = answers.assign(MGMT_value=0.35 * answers["MGMT_value"] + 0.65 * rng.random(len(answers)))
    ids, values = noisy["BraTS21ID"], noisy["MGMT_value"]
    return {
        "ids_without_zeros": noisy.assign(BraTS21ID=ids.astype(int)),
        "ties": noisy.assign(MGMT_value=values.round(1)),
        "inverted": answers.assign(MGMT_value=1 - answers["MGMT_value"]),
        "hard_labels": noisy.assign(MGMT_value=(values > 0.5).astype(int)),
        "columns_swapped_and_extra": noisy.assign(w=0)[["MGMT_value", "w", "BraTS21ID"]],
        "ids_with_prefix": noisy.assign(BraTS21ID="BraTS2021_" + ids),
        "above_one": noisy.assign(MGMT_value=values + 0.7),
        "negative": noisy.assign(MGMT_value=-values),
        "duplicate_for_missing": pd.concat([noisy.iloc[1:], noisy.tail(1)]),
        "missing_id_column": noisy[["MGMT_value"]],
        "all_nan": noisy.assign(MGMT_value=None),
        **standard(
            noisy,
            "BraTS21ID",
            "09999",
            "MGMT_value",
            "missing_column nan_prediction text_prediction",
            without="duplicate_id header_only",
        ),
    }
