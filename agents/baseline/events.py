"""Predicts the direction that an event came from, from many readings of sensors."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import pandas as pd
from tables import SEED, Source

AXES = ["x", "y", "z"]
ANGLES = ["azimuth", "zenith"]
MAX_FILES = 50

log = logging.getLogger("baseline")


def directions(data: Path, sample: pd.DataFrame, tables: list[Source]) -> pd.DataFrame | None:
    """Return the sample with directions; None if it does not ask for azimuth and zenith of events in Parquet files.

    The files must have a row per sensor reading. One table must have the positions of the sensors, and another one the
    true directions of training events.
    """
    id = sample.columns[0]
    if list(sample.columns[1:]) != ANGLES:
        return None
    from pyarrow.parquet import read_schema

    columns = {path: set(read_schema(path).names) for path in sorted(data.rglob("*.parquet"))}  # includes the index
    truths = [path for path, names in columns.items() if {id, *ANGLES} <= names]
    places = next((t for t in tables if set(AXES) <= set(t.columns()) and len(t.columns()) == 4), None)
    if not truths or places is None:
        return None
    sensor = next(name for name in places.columns() if name not in AXES)
    readings = [path for path, names in columns.items() if {id, sensor, "time"} <= names]
    where = places.read(as_text=[]).set_index(sensor)[AXES]
    asked = sample[id].astype("int64")
    known = [path for path in readings if "test" not in path.relative_to(data).as_posix()][:MAX_FILES]
    rest = [path for path in readings if path not in known]
    truth = pd.read_parquet(truths[0]).reset_index().set_index(id)[ANGLES]
    train = pd.concat([_events(path, id, sensor, where) for path in known])
    train = train[train.index.isin(truth.index)]
    test = pd.concat([_events(path, id, sensor, where) for path in rest]).reindex(asked)
    if test.isna().all(axis=1).any() or train.empty:
        return None
    found = _learned(train, truth.loc[train.index], test)
    return sample.assign(**{name: found[:, k].round(6) for k, name in enumerate(ANGLES)})


def _events(path: Path, id: str, sensor: str, where: pd.DataFrame) -> pd.DataFrame:
    """Return features of each event: the place and time of its readings, and the line that they move along."""
    rows = pd.read_parquet(path).reset_index().merge(where, left_on=sensor, right_index=True)
    flags = [name for name in rows if rows[name].dtype == bool]
    weights = next((name for name in rows if "charge" in name), None)
    rows["weight"] = rows[weights].astype(float) if weights else 1.0
    for name in flags:  # flagged readings are less reliable
        rows["weight"] = rows["weight"] * np.where(rows[name], 0.1, 1.0)
    rows["weight"] = np.minimum(rows["weight"], rows["weight"].quantile(0.95))
    return pd.DataFrame({event: _measured(own) for event, own in rows.groupby(id)}).T


def _measured(rows: pd.DataFrame) -> dict[str, float]:
    points, weight = rows[AXES].to_numpy(float), rows["weight"].to_numpy(float) + 1e-6
    time = rows["time"].to_numpy(float)
    weight = weight / weight.sum()
    centre, moment = weight @ points, weight @ time
    off, late = points - centre, time - moment
    slope = (weight * late) @ off / ((weight * late) @ late + 1e-9)
    speed = float(np.linalg.norm(slope))
    values, vectors = np.linalg.eigh((off * weight[:, None]).T @ off)
    axis = vectors[:, -1] * (1.0 if vectors[:, -1] @ slope >= 0 else -1.0)
    made = {"readings": float(len(rows)), "speed": speed, "length": float(np.log(np.ptp(time) + 1))}
    for k, name in enumerate(AXES):
        made |= {f"moves {name}": slope[k] / (speed + 1e-9), f"lies {name}": axis[k], f"centre {name}": centre[k]}
        made[f"spread {name}"] = float(np.sqrt(values[k].clip(0)))
    return made


def _learned(train: pd.DataFrame, truth: pd.DataFrame, test: pd.DataFrame) -> np.ndarray:
    """Predict azimuth and zenith of the test events: from the line itself, or with trees if they are more accurate."""
    from sklearn.ensemble import ExtraTreesRegressor
    from sklearn.model_selection import cross_val_predict

    true = _vectors(truth.to_numpy(float))
    model = ExtraTreesRegressor(200, min_samples_leaf=3, random_state=SEED)
    held = cross_val_predict(model, train, true, cv=3)
    ways: dict[str, tuple[np.ndarray, np.ndarray]] = {"trees": (held, model.fit(train, true).predict(test))}
    for kind in ("moves", "lies"):
        columns = [f"{kind} {name}" for name in AXES]
        for sign in (1, -1):
            ways[f"{kind} {sign:+d}"] = (sign * train[columns].to_numpy(), sign * test[columns].to_numpy())
    errors = {name: _angle(found, true) for name, (found, _) in ways.items()}
    for name, error in errors.items():
        log.info("%s: %.4f radians off in training", name, error)
    x, y, z = _unit(ways[min(errors, key=lambda name: errors[name])][1]).T
    return np.column_stack([np.arctan2(y, x) % (2 * np.pi), np.arccos(z.clip(-1, 1))])


def _vectors(angles: np.ndarray) -> np.ndarray:
    azimuth, zenith = angles.T
    return np.column_stack([np.cos(azimuth) * np.sin(zenith), np.sin(azimuth) * np.sin(zenith), np.cos(zenith)])


def _unit(vectors: np.ndarray) -> np.ndarray:
    return np.asarray(vectors / (np.linalg.norm(vectors, axis=1, keepdims=True) + 1e-12))


def _angle(found: np.ndarray, true: np.ndarray) -> float:
    return float(np.arccos((_unit(found) * true).sum(axis=1).clip(-1, 1)).mean())
