"""Predicts positions at given times, from the receiver's recorded positions, smoothed as is best for known tracks."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import numpy as np
import pandas as pd

AXES = r"(?:^|[a-z_ ])([XYZ])[A-Za-z_ ]*ecef"
PLACE = r"(lat(itude)?|lon(gitude)?|lng)(_?deg(rees)?)?"
TIME = r"time|millis|timestamp"
FILTERS = ((1, 1), (3, 1), (3, 3), (5, 5), (9, 5), (9, 9), (15, 9), (15, 15), (25, 25))
"""Candidate widths of a running median, and of the running mean after it."""
MAX_TRACKS = 60
EARTH_METRES, FLATTENING = 6_378_137.0, 1 / 298.257223563

log = logging.getLogger("baseline")


def positions(data: Path, sample: pd.DataFrame) -> pd.DataFrame | None:
    """Return the sample with recorded positions; None if it does not ask for latitude and longitude along tracks.

    Each track is a folder with a table of positions in earth-centred coordinates. Its name in the sample consists of
    the names of folders. Training folders have another table with the true latitude and longitude.
    """
    places = [name for name in sample if re.fullmatch(PLACE, name, re.I)]
    times = [name for name in sample if name not in places and re.search(TIME, name, re.I)]
    rest = [name for name in sample if name not in (*places, *times)]
    if (
        [name[:3].lower() for name in places] not in (["lat", "lon"], ["lat", "lng"])
        or len(times) != 1
        or len(rest) != 1
    ):
        return None
    folders = sorted({path.parent for path in data.rglob("*.csv") if path.parent != data})
    named = {mark.join(folder.parts[-depth:]): folder for folder in folders for depth in (1, 2) for mark in "-_/"}
    if not set(sample[rest[0]]) <= set(named):
        return None
    asked = {name: named[name] for name in sample[rest[0]].unique()}
    tracks = {name: _track(folder) for name, folder in asked.items()}
    if any(track is None for track in tracks.values()):
        return None
    widths = _best_filter([folder for folder in folders if folder not in asked.values()], places, times[0])
    table = sample.copy()
    for name, track in tracks.items():
        rows = sample[rest[0]] == name
        found = _smoothed(track, widths, sample.loc[rows, times[0]].astype(float).to_numpy())
        table.loc[rows, places] = found.round(9).astype(str)
    return table


def _track(folder: Path) -> np.ndarray | None:
    """Return time, latitude and longitude for each time with a recorded position, shape (times, 3)."""
    for path in sorted(folder.glob("*.csv")):
        header = list(pd.read_csv(path, nrows=0).columns)
        times = [name for name in header if re.search(TIME, name, re.I)]
        axes = _axes(header)
        if not times or not axes:
            continue
        rows = pd.read_csv(path, usecols=[times[0], *axes]).dropna().groupby(times[0], as_index=False).median()
        rows = rows[np.linalg.norm(rows[axes], axis=1) > EARTH_METRES / 2]
        if len(rows):
            return np.column_stack([rows[times[0]].to_numpy(float), _on_earth(rows[axes].to_numpy(float))])
    return None


def _axes(header: list[str]) -> list[str]:
    """Return the three columns of the receiver's position, not of the satellites' positions."""
    groups: dict[str, list[str]] = {}
    for name in header:
        if (match := re.search(AXES, name, re.I)) and re.search("ecef", name, re.I):
            groups.setdefault(name[: match.start(1)] + name[match.end(1) :], []).append(name)
    own = [key for key, names in groups.items() if len(names) == 3 and re.search("pos", key, re.I)]
    own = [key for key in own if not re.match(r"sv|sat", key, re.I)]
    return sorted(groups[own[0]]) if own else []


def _on_earth(points: np.ndarray) -> np.ndarray:
    """Convert earth-centred coordinates in metres to latitude and longitude in degrees, by Bowring's formula."""
    x, y, z = points.T
    short = EARTH_METRES * (1 - FLATTENING)
    flat = np.hypot(x, y)
    angle = np.arctan2(z * EARTH_METRES, flat * short)
    square = FLATTENING * (2 - FLATTENING)
    up = z + square / (1 - square) * short * np.sin(angle) ** 3
    latitude = np.arctan2(up, flat - square * EARTH_METRES * np.cos(angle) ** 3)
    return np.degrees(np.column_stack([latitude, np.arctan2(y, x)]))


def _smoothed(track: np.ndarray, widths: tuple[int, int], times: np.ndarray) -> np.ndarray:
    values = pd.DataFrame(track[:, 1:])
    values = values.rolling(widths[0], center=True, min_periods=1).median()
    values = values.rolling(widths[1], center=True, min_periods=1).mean()
    return np.column_stack([np.interp(times, track[:, 0], values[k]) for k in values])


def _best_filter(folders: list[Path], places: list[str], time: str) -> tuple[int, int]:
    """Return the filter with the smallest error on training tracks."""
    pairs = []
    for folder in folders:
        for path in sorted(folder.glob("*.csv")):
            if len(pairs) < MAX_TRACKS and {*places, time} <= set(pd.read_csv(path, nrows=0).columns):
                track = _track(folder)
                pairs += [] if track is None else [(track, pd.read_csv(path)[[time, *places]].dropna().to_numpy(float))]
    if not pairs:
        return FILTERS[2]

    def metres(widths: tuple[int, int]) -> float:
        off = []
        for track, true in pairs:
            apart = _smoothed(track, widths, true[:, 0]) - true[:, 1:]
            apart = (
                np.radians(apart) * EARTH_METRES * np.column_stack([np.ones(len(true)), np.cos(np.radians(true[:, 1]))])
            )
            off.append(np.quantile(np.linalg.norm(apart, axis=1), (0.5, 0.95)).mean())
        return float(np.mean(off))

    found = {widths: metres(widths) for widths in FILTERS}
    for widths, error in found.items():
        log.info("running median of %d and mean of %d: %.2f metres off in training", *widths, error)
    return min(FILTERS, key=lambda widths: found[widths])
