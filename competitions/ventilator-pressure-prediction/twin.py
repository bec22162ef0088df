from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.ndimage import gaussian_filter1d
from scipy.signal import lfilter

from pytest_mlebench.authoring.tables import split
from pytest_mlebench.authoring.worlds.labels import by_size

STEPS, STEP = 80, 0.07030214545121  # rows per breath, and the smallest difference between pressures


def make(raw: Path, rng: np.random.Generator, size: str) -> dict[str, pd.DataFrame]:
    n = by_size(size, 60, 800, 2500)
    resistance, compliance = rng.choice([5, 20, 50], n), rng.choice([10, 20, 50], n)
    time = np.cumsum(rng.uniform(0.032, 0.035, (n, STEPS)), axis=1)
    time -= time[:, :1]
    out = time >= rng.uniform(0.85, 1.1, (n, 1))
    opening = 12 * np.abs(gaussian_filter1d(rng.normal(size=(n, STEPS)), 4, axis=1)) * rng.uniform(1, 9, (n, 1))
    opening = opening + rng.uniform(0, 90, (n, 1)) * np.exp(-time / rng.uniform(0.1, 0.6, (n, 1)))
    opening = np.where(out, rng.uniform(0, 5, (n, 1)) * (rng.random((n, 1)) < 0.8), np.minimum(opening, 100)).round(6)

    # the world: the valve's curve, how fast the air follows, how the lung stiffens, and the pressure at rest
    curve, lag, stiff = rng.uniform(0.7, 1.3), rng.uniform(0.55, 0.85), rng.uniform(0.3, 0.8)
    rest, flow_gain = rng.uniform(4, 7), rng.uniform(0.006, 0.01)
    leak = rng.uniform(0.02, 0.06)

    def pressures(flow: np.ndarray, stiffness: float) -> np.ndarray:
        volume = lfilter([1], [1, -(1 - leak)], np.where(out, -0.5, 1) * flow, axis=1).clip(0)
        lung = 0.35 * flow_gain * volume * 50 / compliance[:, None]
        lung = lung * (1 + stiffness * np.tanh(lung / 15))
        return rest + np.where(out, 0.2, 1) * (flow_gain * flow * resistance[:, None] ** 0.8 + 2 * lung)

    flow = lfilter([1 - lag], [1, -lag], 100 * (opening / 100) ** curve, axis=1)
    truth = pressures(flow, stiff)
    noise = 0.45 * truth[~out].std() * 0.25 * gaussian_filter1d(rng.normal(size=(n, STEPS)), 1, axis=1)
    given = 4 + STEP * np.round((truth + 2 * noise - 4) / STEP)
    rows = pd.DataFrame({"id": np.arange(1, n * STEPS + 1)})
    breaths = rng.permutation(np.arange(1, 3 * n))[:n]
    for name, values in (("breath_id", breaths), ("R", resistance), ("C", compliance)):
        rows[name] = np.repeat(values, STEPS)
    rows = rows.assign(time_step=time.round(6).ravel(), u_in=opening.ravel(), u_out=out.astype(int).ravel())
    rows.assign(pressure=given.ravel()).to_csv(raw / "train.csv", index=False)
    rows.head(STEPS).to_csv(raw / "test.csv", index=False)
    rows[["id"]].head(STEPS).assign(pressure=0).to_csv(raw / "sample_submission.csv", index=False)
    _, test = split(np.unique(breaths), test_size=0.1)  # prepare.py renumbers their rows
    places = pd.Series(range(n), breaths)[test]
    guesses = {"simple": pressures(opening, 0), "ceiling": truth}
    ids = pd.RangeIndex(1, len(test) * STEPS + 1, name="id")
    return {name: pd.DataFrame({"pressure": g[places].round(4).ravel()}, ids) for name, g in guesses.items()}


def units(submission: pd.DataFrame) -> Sequence[object]:
    """Return the breath of each row; the rows of a breath are consecutive."""
    return ((submission["id"].astype(int) - 1) // STEPS).tolist()
