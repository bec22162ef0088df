from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.synthetic import first_value, standard

SENSORS = [f"sensor_{number}" for number in range(1, 11)]


def make(raw: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = 130
    ids = rng.choice(np.arange(1_000_000, 2_147_483_647, 977), n, replace=False)
    segments = pd.DataFrame({"segment_id": ids, "time_to_eruption": rng.integers(6_250, 49_046_087, n)})
    segments.to_csv(raw / "train.csv", index=False)
    for folder, group in (("train", [*ids, 42]), ("test", rng.integers(10**6, 10**9, 4))):
        (raw / folder).mkdir()
        for segment in group:
            readings = pd.DataFrame(rng.integers(-3000, 3000, (3, 10)), columns=SENSORS).astype(object)
            if rng.random() < 0.3:
                readings[rng.choice(SENSORS)] = None  # a dead sensor
            readings.to_csv(raw / folder / f"{segment}.csv", index=False)
    pd.DataFrame({"segment_id": [1, 2], "time_to_eruption": 0}).to_csv(raw / "sample_submission.csv", index=False)


def submissions(public: Path, private: Path, rng: np.random.Generator) -> dict[str, Any]:
    answers = pd.read_csv(private / "test.csv")
    n, truth = len(answers), answers["time_to_eruption"]
    good = answers.assign(time_to_eruption=(truth + 4e6 * rng.standard_normal(n)).round(3))
    times = good["time_to_eruption"]

    def mean_error(error: float) -> pd.DataFrame:
        return good.assign(time_to_eruption=truth + np.where(np.arange(n) == 0, n * error, 0))

    return {
        "integers": good.assign(time_to_eruption=times.astype("int64")),
        "median": good.assign(time_to_eruption=truth.median()),
        "negative_and_huge": good.assign(time_to_eruption=np.where(np.arange(n) % 2, -1e12, 1e15)),
        "error_two_and_a_half": mean_error(2.5),
        "error_three_and_a_half": mean_error(3.5),
        "columns_swapped_with_extra": good.assign(sensor_1=1)[["sensor_1", "time_to_eruption", "segment_id"]],
        "ids_as_floats": good.assign(segment_id=good["segment_id"].astype(float)),
        "duplicate_rows": pd.concat([good, good.head(3).assign(time_to_eruption=0)]),
        "duplicate_instead_of_row": pd.concat([good.iloc[1:], good.tail(1)]),
        **first_value(good, "time_to_eruption", one_empty=None, text="soon"),
        **standard(
            good, "segment_id", 7, "time_to_eruption", "missing_column renamed_id infinite", without="duplicate_id"
        ),
    }
