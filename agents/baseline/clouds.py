"""Finds boxes in point clouds with nuScenes tables: measures and classifies the objects that stand on the ground."""

from __future__ import annotations

import json
import logging
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from tables import SEED, Source

BOX = r"(?:-?\d+(?:\.\d+)? ){7}[A-Za-z_]+"
BOXES = re.compile(rf"{BOX}(?: {BOX})*")
FIELDS = 5
"""Numbers per point. The first three are its coordinates."""
MAX_SAMPLES, CELL = 400, 5.0
"""Maximum number of training samples, and the size in metres of the squares in which the ground is estimated."""
ABOVE, HIGHEST, NEAR, LEAST_POINTS = 0.15, 5.0, 0.9, 5
"""Points of objects: minimum and maximum metres above the ground, maximum distance in metres, minimum number."""
LEAST_SHARE = 0.05
NOTHING = ""

log = logging.getLogger("baseline")


def _entries(data: Path, name: str) -> list[dict[str, Any]]:
    return [entry for path in sorted(data.glob(f"*/{name}.json")) for entry in json.loads(path.read_text())]


def _turn(quaternion: list[float]) -> np.ndarray:
    w, x, y, z = quaternion
    return np.array([
        [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
        [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
        [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
    ])  # fmt: skip


class Clouds:
    """The points of samples, in world coordinates."""

    def __init__(self, data: Path) -> None:
        poses = [*_entries(data, "ego_pose"), *_entries(data, "calibrated_sensor")]
        self.poses = {entry["token"]: entry for entry in poses}
        files = {path.name: path for path in data.rglob("*.bin")}
        self.seen: dict[str, list[tuple[Path, dict[str, Any]]]] = {}
        for entry in _entries(data, "sample_data"):
            if (name := Path(entry["filename"]).name) in files:
                self.seen.setdefault(entry["sample_token"], []).append((files[name], entry))

    def points(self, token: str) -> np.ndarray:
        found = []
        for path, entry in self.seen[token]:
            values = np.fromfile(path, dtype="<f4")
            points = values[: len(values) // FIELDS * FIELDS].reshape(-1, FIELDS)[:, :3].astype(float)
            for name in ("calibrated_sensor_token", "ego_pose_token"):
                pose = self.poses[entry[name]]
                points = points @ _turn(pose["rotation"]).T + np.array(pose["translation"])
            found.append(points)
        return np.concatenate(found)


def _heaps(points: np.ndarray) -> list[np.ndarray]:
    """Cluster the points above the ground. Each point is (x, y, height above the ground, height of the ground)."""
    from sklearn.cluster import DBSCAN

    squares = np.unique((points[:, :2] // CELL).astype(int), axis=0, return_inverse=True)[1].reshape(-1)
    lows = pd.Series(points[:, 2]).groupby(squares).quantile(0.05).to_numpy()[squares]
    usual = float(np.quantile(points[:, 2], 0.1))
    ground = np.where(lows - usual > 1, usual, lows)  # the ground may be hidden in a square
    raised = points[:, 2] - ground
    is_thing = (raised > ABOVE) & (raised < HIGHEST)
    things = np.column_stack([points[:, :2], raised, ground])[is_thing]
    if len(things) < LEAST_POINTS:
        return []
    labels = DBSCAN(eps=NEAR, min_samples=3).fit_predict(things[:, :2])
    heaps = [things[labels == k] for k in range(labels.max() + 1)]
    return [heap for heap in heaps if len(heap) >= LEAST_POINTS]


def _measured(heap: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the smallest box around a cluster, as (x, y, ground, width, length, height, yaw), and its features."""
    turns = np.arange(0, np.pi / 2, np.pi / 90)
    axes = np.array([[np.cos(turns), -np.sin(turns)], [np.sin(turns), np.cos(turns)]])  # (2, 2, turns)
    sides = np.einsum("np,pqt->nqt", heap[:, :2], axes)
    low, high = sides.min(axis=0), sides.max(axis=0)
    k = int((high - low).prod(axis=0).argmin())
    (length, width), middle, yaw = (high - low)[:, k], axes[:, :, k] @ (low + high)[:, k] / 2, turns[k]
    yaw += np.pi / 2 if width > length else 0
    area = length * width + 1e-3
    found = np.array([*middle, np.median(heap[:, 3]), *sorted((width, length)), heap[:, 2].max(), yaw])
    spread = heap[:, :3].std(axis=0)
    return found, np.array([*found[3:6], np.log(len(heap)), *np.sort(spread[:2]), spread[2], area, len(heap) / area])


def _true_boxes(text: str) -> list[tuple[str, np.ndarray]]:
    rows = np.array(text.split(), dtype=object).reshape(-1, 8)
    return [(str(row[7]), row[:7].astype(float)) for row in rows]


def cloud_submission(data: Path, sample: pd.DataFrame, tables: list[Source]) -> pd.DataFrame | None:
    """Return boxes as texts of confidence, position, size, yaw and class; None if there are no point clouds."""
    if sample.shape[1] != 2 or not any(data.glob("*/sample_data.json")):
        return None
    id, target = sample.columns
    table = next((table for table in tables if table.columns() == [id, target]), None)
    if table is None:
        return None
    rows, clouds = table.read(), Clouds(data)
    rows = rows[rows[target].str.fullmatch(BOXES.pattern) & rows[id].isin(clouds.seen.keys())]
    if len(rows) < 10 or not sample[id].isin(clouds.seen.keys()).all():
        return None
    rows = rows.sample(min(len(rows), MAX_SAMPLES), random_state=SEED)
    known = _matched(clouds, rows[id], rows[target])
    return sample.assign(**{target: _predicted(known, clouds, sample[id])})


Known = tuple[tuple[np.ndarray, np.ndarray], tuple[str, np.ndarray]]


def _matched(clouds: Clouds, ids: pd.Series, texts: pd.Series) -> list[Known]:
    """Measure clusters, and match each to the true box it lies in, if any."""
    found: list[Known] = []
    for token, text in zip(ids, texts, strict=True):
        boxes = _true_boxes(text)
        for heap in _heaps(clouds.points(token)):
            own = _measured(heap)
            away = [np.hypot(*(own[0][:2] - box[:2])) for _, box in boxes]
            nearest = int(np.argmin(away))
            is_hit = away[nearest] < max(0.5, boxes[nearest][1][4] / 4)
            found.append((own, boxes[nearest] if is_hit else (NOTHING, np.zeros(7))))
    return found


def _predicted(known: list[Known], clouds: Clouds, ids: pd.Series) -> list[str]:
    from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor

    x, kinds = np.array([own[1] for own, _ in known]), np.array([kind for _, (kind, _) in known])
    forest = ExtraTreesClassifier(100, min_samples_leaf=2, random_state=SEED).fit(x, kinds)
    things = kinds != NOTHING
    sides = np.array([box[3:6] for _, (_, box) in known])[things]
    lifts = np.array([box[2] - own[0][2] for own, (_, box) in known])[things]
    sizes = ExtraTreesRegressor(100, min_samples_leaf=3, random_state=SEED)
    sizes.fit(x[things], np.column_stack([sides, lifts]))
    log.info("%d clusters of points for training, including %d objects", len(x), things.sum())
    texts = []
    for token in ids:
        parts = []
        if own := [_measured(heap) for heap in _heaps(clouds.points(token))]:
            numbers = np.array([row for _, row in own])
            for (box, _), (*size, lift), shares in zip(
                own, sizes.predict(numbers), forest.predict_proba(numbers), strict=True
            ):
                place = " ".join(f"{value:.4f}" for value in (box[0], box[1], box[2] + lift, *size, box[6]))
                parts += [
                    f"{share:.3f} {place} {kind}"
                    for kind, share in zip(forest.classes_, shares, strict=True)
                    if kind != NOTHING and share > LEAST_SHARE
                ]
        texts.append(" ".join(parts))
    return texts
