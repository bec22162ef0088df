from pathlib import Path

import numpy as np
import pandas as pd
from scipy.ndimage import gaussian_filter1d

from pytest_mlebench.authoring.worlds.labels import by_size

from .synthetic import PHONES, PLACES

METRES = np.array([111_200.0, 111_200.0 * np.cos(np.deg2rad(37.4))])  # per degree of latitude and longitude
POSITION = ["LatitudeDegrees", "LongitudeDegrees"]
SIGNALS = 4  # satellites at a time


def make(raw: Path, rng: np.random.Generator, size: str) -> dict[str, pd.DataFrame]:
    """Write no log of the reference receiver, which reveals the test positions in version 1 of the real data."""
    dates, seconds = by_size(size, 20, 40, 80), by_size(size, 40, 90, 120)
    # the world: each phone model has an offset; errors drift, and jump if the signal is poor
    turn, drift = rng.uniform(0, 2 * np.pi, len(PHONES)), rng.uniform(6, 12)
    offset = rng.uniform(9, 16, (len(PHONES), 1)) * np.column_stack([np.cos(turn), np.sin(turn)])
    days = sorted(rng.choice(pd.date_range("2020-05-01", "2021-12-28").strftime("%Y-%m-%d"), dates, replace=False))
    tables: dict[str, list[pd.DataFrame]] = {"simple": [], "ceiling": []}
    for day in days:
        for k in range(rng.integers(1, 3)):
            drive = f"{day}-{rng.choice(PLACES)}-{k + 1}"
            speed = np.abs(gaussian_filter1d(rng.normal(size=seconds), 8)) * rng.uniform(20, 80)
            heading = rng.uniform(0, 6.3) + np.cumsum(gaussian_filter1d(rng.normal(size=seconds), 6)) * 0.25
            moved = np.cumsum(speed[:, None] * np.column_stack([np.cos(heading), np.sin(heading)]), axis=0)
            path = np.array([37.4, -122.1]) + (moved + rng.normal(0, 8000, 2)) / METRES
            start = int(pd.Timestamp(day).timestamp()) * 1000 + (15 + 4 * k) * 3_600_000 + int(rng.integers(7_200_000))
            for phone in sorted(rng.choice(len(PHONES), rng.integers(1, 3), replace=False)):
                error = 4 * gaussian_filter1d(rng.normal(size=(seconds, 2)), drift, axis=0) * np.sqrt(drift)
                error = error + rng.normal(0, 2.5, (seconds, 2))
                rough = path + (error + 0.35 * offset[phone]) / METRES
                error = error + offset[phone]
                poor = rng.random(seconds) < 0.08
                error[poor] += rng.normal(0, 25, (poor.sum(), 2))
                poor = poor | (rng.random(seconds) < 0.02)
                name, clock = PHONES[phone], start + 1000 * np.arange(seconds) + 97 * int(phone)  # distinct times
                _write(raw / "train" / drive / name, rng, clock, path, path + error / METRES, poor)
                known = path + rng.normal(0, 1.2, (seconds, 2)) / METRES
                for guess, places in (("simple", rough), ("ceiling", known)):
                    tables[guess].append(pd.DataFrame(places.round(8), clock, POSITION))
    _write(raw / "test" / "2022-01-01-US-MTV-1" / "GooglePixel5", rng, clock, None, path, poor)
    (raw / "metadata").mkdir()
    (raw / "metadata" / "raw_state_bit_map.json").write_text('{"0": "STATE_CODE_LOCK"}')
    (raw / "metadata" / "constellation_type_mapping.csv").write_text("constellationType,constellationName\n1,GPS\n")
    (raw / "sample_submission.csv").write_text("tripId,UnixTimeMillis,LatitudeDegrees,LongitudeDegrees\n")
    return {name: pd.concat(parts).rename_axis("UnixTimeMillis") for name, parts in tables.items()}


def _write(folder: Path, rng: np.random.Generator, clock: np.ndarray, path, shown: np.ndarray, poor: np.ndarray):
    (folder / "supplemental").mkdir(parents=True)
    n = len(clock)
    if path is not None:
        truth = pd.DataFrame({"MessageType": "Fix", "Provider": "GT"}, index=range(n))
        truth[POSITION] = path.round(8)
        truth["AltitudeMeters"] = rng.normal(30, 2, n).round(2)
        truth["UnixTimeMillis"] = clock
        truth.to_csv(folder / "ground_truth.csv", index=False)
    rows = pd.DataFrame({"MessageType": "Raw", "utcTimeMillis": clock.repeat(SIGNALS)})
    rows["Svid"] = np.tile(np.sort(rng.choice(np.arange(1, 33), SIGNALS, replace=False)), n)
    rows["ConstellationType"], rows["SignalType"] = 1, "GPS_L1"
    rows["Cn0DbHz"] = (rng.normal(40, 4, n * SIGNALS) - 12 * poor.repeat(SIGNALS)).round(1)
    ecef = _ecef(shown, 30.0).round(3).repeat(SIGNALS, axis=0)
    rows[[f"WlsPosition{axis}EcefMeters" for axis in "XYZ"]] = ecef
    rows.to_csv(folder / "device_gnss.csv", index=False)
    imu = pd.DataFrame({"MessageType": "UncalAccel", "utcTimeMillis": clock})
    imu[[f"Measurement{axis}" for axis in "XYZ"]] = rng.normal([0, 0, 9.8], 0.3, (n, 3)).round(4)
    imu.to_csv(folder / "device_imu.csv", index=False)
    (folder / "supplemental" / "rinex.o").write_text("3.03\n")


def _ecef(place: np.ndarray, height: float) -> np.ndarray:
    """Convert latitudes and longitudes in degrees to Earth-centred coordinates in metres (WGS84)."""
    latitude, longitude = np.deg2rad(place).T
    flat = 6.69437999014e-3
    radius = 6378137 / np.sqrt(1 - flat * np.sin(latitude) ** 2)
    level = (radius + height) * np.cos(latitude)
    z = (radius * (1 - flat) + height) * np.sin(latitude)
    return np.column_stack([level * np.cos(longitude), level * np.sin(longitude), z])


def deal(submission: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """Return positions that need no learning: those of the phones, which are off by about 16 metres."""
    turn = rng.uniform(0, 2 * np.pi, len(submission))
    off = 16 * np.column_stack([np.cos(turn), np.sin(turn)]) / METRES
    places = submission[POSITION].astype(float) + off
    return submission.assign(**{name: places[name].astype(object) for name in POSITION})
