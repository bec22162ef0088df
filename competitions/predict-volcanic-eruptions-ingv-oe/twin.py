from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import norm

from pytest_mlebench.authoring.worlds.labels import add_noise, by_size, standard

from .synthetic import SENSORS

LATEST, ROWS = 49_000_000, 240  # the real segments have 60,001 rows of a hundredth of a second


def make(raw: Path, rng: np.random.Generator, size: str) -> dict[str, pd.DataFrame]:
    n = by_size(size, 500, 800, 2000)
    # the world: how loud, how deep and how jerky the ground trembles before an eruption
    loud, deep, jerky = standard(rng.normal(size=(n, 3))).T
    weights = np.array([1.5, rng.choice([-1, 1]) * rng.uniform(0.8, 1.2), rng.uniform(0.5, 0.9)])
    near = np.column_stack([loud, deep, jerky]) @ weights
    truth = add_noise(near, rng, r2=0.93)
    scale = truth.std()
    ids = rng.permutation(np.arange(1_000_000, 2_147_483_647, 977))[:n]
    segments = pd.DataFrame({"segment_id": ids, "time_to_eruption": _time(truth / scale)})
    segments.to_csv(raw / "train.csv", index=False)
    (raw / "train").mkdir()
    gains, best = rng.uniform(0.4, 2.5, 10), rng.permutation(10)
    for k, id in enumerate(ids):
        time = np.arange(ROWS)
        rate = 0.12 * np.exp(0.5 * deep[k])  # turns per row
        tremor = np.sin(2 * np.pi * rate * time[:, None] + rng.uniform(0, 6.3, 10)) + 0.6 * rng.normal(size=(ROWS, 10))
        jerks = np.zeros((ROWS, 10))
        for start in rng.integers(0, ROWS, rng.poisson(3 * np.exp(0.6 * jerky[k]))):
            jerks[start:] += 5 * rng.choice([-1, 1]) * np.exp(-(time[: ROWS - start] / 4))[:, None]
        values = 90 * gains * np.exp(0.5 * loud[k] + 0.1 * rng.normal(size=10)) * (tremor + jerks)
        rows = pd.DataFrame(np.rint(values).astype(int), columns=SENSORS)
        dead = [SENSORS[sensor] for sensor in best[:4] if rng.random() < 0.1]
        rows = rows.astype(dict.fromkeys(dead, object))
        rows[dead] = None
        rows.to_csv(raw / "train" / f"{id}.csv", index=False)
    (raw / "test").mkdir()
    pd.DataFrame({"segment_id": [1, 2], "time_to_eruption": 0}).to_csv(raw / "sample_submission.csv", index=False)
    simple = loud * np.cov(loud, truth)[0, 1] / scale
    index = segments["segment_id"]
    return {
        "simple": pd.DataFrame({"time_to_eruption": _time(simple)}, index),
        "ceiling": pd.DataFrame({"time_to_eruption": _time(near / scale)}, index),
    }


def _time(near: np.ndarray) -> np.ndarray:
    """Return hundredths of a second, uniformly distributed if ``near`` is standard normal."""
    return np.rint(10_000 + LATEST * norm.cdf(-near)).astype(int)
