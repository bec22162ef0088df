from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.synthetic import first_value, standard


def make(raw: Path, seed: int) -> None:
    make_batches(raw, seed, 28)


def make_batches(raw: Path, seed: int, batches: int) -> None:
    rng = np.random.default_rng(seed)
    (raw / "train").mkdir()
    (raw / "test").mkdir()
    tables, last = [], 20
    for batch in rng.permutation(np.arange(1, batches + 1)):  # not in numeric order
        events = last + np.cumsum(rng.integers(1, 40, rng.integers(9, 16)))
        last, n = events[-1], len(events)
        counts = _write_pulses(raw / "train" / f"batch_{batch}.parquet", events, rng)
        ends = np.cumsum(counts) - 1
        table = {
            "batch_id": batch,
            "event_id": events,
            "first_pulse_index": ends - counts + 1,
            "last_pulse_index": ends,
        }
        # rounded, because the last digits of the arc cosine differ between processors
        angles = {"azimuth": rng.random(n) * 2 * np.pi, "zenith": np.arccos(rng.uniform(-1, 1, n)).round(9)}
        tables.append(pd.DataFrame({**table, **angles}))
    meta = pd.concat(tables, ignore_index=True)
    meta.loc[0, "zenith"] = 0.0
    meta.to_parquet(raw / "train_meta.parquet", index=False)
    _write_pulses(raw / "train" / "batch_999.parquet", [7, 8], rng)  # not in the table
    _write_pulses(raw / "test" / "batch_661.parquet", [2092], rng)
    meta.drop(columns=["azimuth", "zenith"]).head(1).to_parquet(raw / "test_meta.parquet", index=False)
    sample = pd.DataFrame({"event_id": [2092], "azimuth": 1, "zenith": 1})
    sample.to_parquet(raw / "sample_submission.parquet", index=False)
    places = {axis: rng.uniform(-500, 500, 60).round(2) for axis in "xyz"}
    pd.DataFrame({"sensor_id": np.arange(60), **places}).to_csv(raw / "sensor_geometry.csv", index=False)


def _write_pulses(path: Path, events: Any, rng: np.random.Generator) -> np.ndarray:
    counts = rng.integers(2, 5, len(events))
    n = counts.sum()
    pulses = pd.DataFrame(
        {
            "sensor_id": rng.integers(0, 60, n).astype("int16"),
            "time": np.sort(rng.integers(5000, 20000, n)),
            "charge": rng.gamma(1, 1, n).round(3).astype("float32"),
            "auxiliary": rng.random(n) < 0.7,
        },
        index=pd.Index(np.repeat(events, counts), name="event_id"),
    )
    pulses.to_parquet(path)
    return counts


def submissions(public: Path, private: Path, rng: np.random.Generator) -> dict[str, Any]:
    answers = pd.read_csv(private / "test.csv")
    n = len(answers)
    azimuth, zenith = answers["azimuth"], answers["zenith"]
    noisy = answers.assign(
        azimuth=(azimuth + rng.normal(0, 0.4, n)) % (2 * np.pi),
        zenith=np.clip(zenith + rng.normal(0, 0.3, n), 0, np.pi),
    )
    ids = noisy["event_id"]

    return {
        "columns_shuffled": noisy[["zenith", "event_id", "azimuth"]],
        "opposite": answers.assign(azimuth=azimuth + np.pi, zenith=np.pi - zenith),
        "straight_up": answers.assign(azimuth=3, zenith=0),
        "same_direction_other_angles": answers.assign(azimuth=azimuth + np.pi - 4 * np.pi, zenith=-zenith),
        "huge_angles": answers.assign(azimuth=1e6 * rng.random(n), zenith=-1e9 * rng.random(n)),
        "rounded": answers.round(2),
        "as_degrees": answers.assign(azimuth=np.degrees(azimuth), zenith=np.degrees(zenith)),
        "random": answers.assign(azimuth=rng.random(n) * 6.28, zenith=rng.random(n) * 3.14),
        "float_ids": noisy.assign(event_id=ids.astype(float)),
        "extra_column": noisy.assign(batch_id=1),
        **first_value(noisy, "azimuth", text="north"),
        "booleans": answers.assign(azimuth=True),
        "duplicate_row": pd.concat([noisy, noisy.tail(1)]),
        "text_ids": noisy.assign(event_id="e" + ids.astype(str)),
        "renamed_column": noisy.rename(columns={"event_id": "id"}),
        **standard(noisy, "event_id", 10**9, "zenith", "missing_column nan_prediction infinite"),
    }
