import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.model_selection import train_test_split

from .prepare import TEST_ROWS

FULL_ROWS = 250  # with every column; the others are as short as possible
FIRST, LATER = "bcdfghjkmpqr", "bcdfghjkmpqrstvwxyz0123456789"


def make(raw: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = TEST_ROWS + 50 + 7 * seed
    keys = np.array(["".join(letters) for letters in itertools.product(FIRST, LATER, LATER)])
    rides = pd.DataFrame(
        {
            "key": rng.choice(keys, n, replace=False),
            "fare_amount": rng.integers(5, 60, n) / 2,
            "pickup_datetime": pd.Series([None] * n, dtype=object),
            "pickup_longitude": -73.0 - rng.integers(5, 10, n) / 10,
            "pickup_latitude": 40.0 + rng.integers(5, 10, n) / 10,
            "dropoff_longitude": np.nan,
            "dropoff_latitude": np.nan,
            "passenger_count": rng.integers(0, 7, n),
        }
    )
    full = rng.choice(n, FULL_ROWS, replace=False)
    times = pd.to_datetime(rng.integers(1230768000, 1435708800, FULL_ROWS), unit="s").astype(str)
    numbers = rng.integers(0, 300, FULL_ROWS)
    rides.loc[full, "key"] = [f"{time}.{number:07d}" for time, number in zip(times, numbers, strict=True)]
    rides.loc[full, "pickup_datetime"] = [f"{time} UTC" for time in times]
    for end in ("pickup", "dropoff"):
        rides.loc[full, f"{end}_longitude"] = -73.97 + rng.normal(0, 0.05, FULL_ROWS)
        rides.loc[full, f"{end}_latitude"] = 40.75 + rng.normal(0, 0.05, FULL_ROWS)
    rides.loc[full[:5], ["pickup_longitude", "pickup_latitude"]] = 0.0
    rides.loc[full[5:9], ["dropoff_longitude", "dropoff_latitude"]] = np.nan
    rides.loc[full[9:80], "fare_amount"] = [-52.0, 0.0, 300.5, *rng.gamma(3, 4, 68).round(2)]
    rides.loc[full[80], "passenger_count"] = 208
    train_rows, _ = train_test_split(np.arange(n), test_size=TEST_ROWS, random_state=0)
    rides.loc[train_rows[0], "fare_amount"] = 93963.36  # would dominate the score in a held-out row
    rides.to_csv(raw / "train.csv", index=False)
    old_test = rides.drop(columns="fare_amount").head(5)
    old_test.to_csv(raw / "test.csv", index=False)
    old_test[["key"]].assign(fare_amount=11.35).to_csv(raw / "sample_submission.csv", index=False)
    (raw / "GCP-Coupons-Instructions.rtf").write_bytes(b"{\\rtf1\\ansi coupons \\'e9 %d}\r\n" % seed)


def submissions(public: Path, private: Path, rng: np.random.Generator) -> dict[str, Any]:
    answers = pd.read_csv(private / "test.csv")[["key", "fare_amount"]]
    n = len(answers)
    fares = (answers.fare_amount.clip(0, 200) + rng.normal(0, 3, n)).round().clip(0, 99).astype(int).astype(object)
    odd = rng.choice(n, 60, replace=False)
    fares.iloc[odd] = [*rng.gamma(3, 4, 57), -250.125, 120, 0.1 + 0.2]
    noisy = answers.assign(fare_amount=fares)
    few = noisy.head(6)
    alike = pd.DataFrame({"key": "z", "fare_amount": pd.Series([9] * n, dtype=object)})
    with_gap = alike.copy()
    with_gap.loc[17, "fare_amount"] = None
    return {
        "noisy_shuffled": noisy.sample(frac=1, random_state=0),
        "one_huge": answers.assign(fare_amount=pd.Series([1e12, *[9] * (n - 1)], dtype=object)),
        "all_ids_alike": alike,
        "nan_prediction": with_gap[["fare_amount", "key"]],
        "missing_rows": few,
        "text_prediction": few.assign(fare_amount="cheap"),
        "missing_column": few[["key"]],
        "missing_id": few[["fare_amount"]],
        "renamed_column": few.rename(columns={"fare_amount": "fare"}),
        "header_only": few.head(0),
        "empty.csv": "",
    }
