from pathlib import Path

import numpy as np
import pandas as pd
from scipy.spatial.transform import Rotation

from pytest_mlebench.authoring.worlds.labels import by_size

from .columns import ANGLES

LIGHT = 0.3  # metres per nanosecond
SENSORS = 60  # per string


def make(raw: Path, rng: np.random.Generator, size: str) -> dict[str, pd.DataFrame]:
    """Use fifty batches: then version 1 (a tenth) and version 2 (five) hold out equally many."""
    batches, events = 50, by_size(size, 30, 120, 400)
    # the world: 86 strings of 60 sensors each, and ice that dims and delays light. Only the labels reveal the axes of
    # the angles, and the clock offset of each string.
    dim, late, dark = rng.uniform(25, 40), rng.uniform(0.5, 2.0), rng.uniform(0.3, 0.5)
    axes = Rotation.from_rotvec(_direction(rng.normal(size=3)) * rng.uniform(0.65, 1) * np.pi)
    clocks = np.repeat(rng.normal(0, 250, 86), SENSORS)
    strings = np.array([(x, y) for x in range(-5, 6) for y in range(-5, 6)]) * [110.0, 95.0]
    strings = strings[np.argsort(np.hypot(*strings.T), kind="stable")[:86]] + rng.normal(0, 8, (86, 2))
    depth = np.linspace(500, -500, SENSORS)
    places = np.column_stack([np.repeat(strings, SENSORS, axis=0), np.tile(depth, 86)]).round(2)
    geometry = pd.DataFrame(places, columns=list("xyz")).rename_axis("sensor_id").reset_index()
    geometry.to_csv(raw / "sensor_geometry.csv", index=False)

    tables, guesses, last = [], {"simple": [], "ceiling": []}, 20
    (raw / "train").mkdir()
    (raw / "test").mkdir()
    for batch in rng.permutation(np.arange(1, batches + 1)):
        ids = last + np.cumsum(rng.integers(1, 40, events))
        last = int(ids[-1])
        truth = _direction(rng.normal(size=(events, 3)))
        pulses = [_event(rng, -way, places, clocks, dim, late, dark) for way in truth]
        counts = np.array([len(event) for event in pulses])
        ends = np.cumsum(counts) - 1
        values = np.concatenate(pulses)
        columns = {"sensor_id": "int16", "time": "int64", "charge": "float32", "auxiliary": "bool"}
        table = pd.DataFrame(values, columns=list(columns), index=pd.Index(np.repeat(ids, counts), name="event_id"))
        table.astype(columns).to_parquet(raw / "train" / f"batch_{batch}.parquet")
        meta = {"batch_id": batch, "event_id": ids, "first_pulse_index": ends - counts + 1, "last_pulse_index": ends}
        tables.append(pd.DataFrame(meta).assign(**_angles(axes.apply(truth))))
        fitted = np.stack([-_fit(places[event[:, 0].astype(int)], event[:, 1]) for event in pulses])
        guesses["simple"].append(pd.DataFrame(_angles(axes.apply(fitted)), index=ids))
        near = truth + rng.normal(0, 0.1, truth.shape)
        guesses["ceiling"].append(pd.DataFrame(_angles(axes.apply(near)), index=ids))
    meta = pd.concat(tables, ignore_index=True)
    meta.to_parquet(raw / "train_meta.parquet", index=False)
    meta.drop(columns=ANGLES).head(1).to_parquet(raw / "test_meta.parquet", index=False)
    sample = pd.DataFrame({"event_id": [2092], "azimuth": 1, "zenith": 1})
    sample.to_parquet(raw / "sample_submission.parquet", index=False)
    return {name: pd.concat(tables).rename_axis("event_id") for name, tables in guesses.items()}


def _event(
    rng: np.random.Generator,
    way: np.ndarray,
    places: np.ndarray,
    clocks: np.ndarray,
    dim: float,
    late: float,
    dark: float,
) -> np.ndarray:
    """Return pulses along a track, mostly near it, and dark noise at any time, most of which is marked as auxiliary."""
    vertex = rng.uniform(-150, 150, 3)
    along = (places - vertex) @ way
    away = np.linalg.norm(places - vertex - along[:, None] * way, axis=1)
    chance = np.exp(-away / dim) * (np.abs(along) < 450)
    count = int(rng.integers(10, 26))
    hit = rng.choice(len(places), count, p=chance / chance.sum())
    time = along[hit] / LIGHT + late * away[hit] * rng.exponential(1, count) + clocks[hit] + rng.normal(0, 5, count)
    noise = rng.random(count) < dark
    hit[noise] = rng.integers(0, len(places), noise.sum())
    time[noise] = rng.uniform(-2500, 2500, noise.sum())
    marked = np.where(noise, rng.random(count) < 0.85, rng.random(count) < 0.3)
    charge = np.where(noise, 0.7, 1.2) * rng.gamma(3, 1 / 3, count) + 0.05
    rows = np.column_stack([hit, np.rint(time + 10_000), charge.round(3), marked])
    return rows[np.argsort(rows[:, 1], kind="stable")]


def _fit(places: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Return the direction in which places move with time, by least squares."""
    return _direction((times - times.mean()) @ (places - places.mean(axis=0)) + 1e-9)


def _direction(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def _angles(vectors: np.ndarray) -> dict[str, np.ndarray]:
    x, y, z = _direction(vectors).T
    return dict(zip(ANGLES, ((np.arctan2(y, x) % (2 * np.pi)).round(6), np.arccos(z).round(6)), strict=True))
