import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.synthetic import first_value
from pytest_mlebench.authoring.tables import split

PHONES = ["GooglePixel4", "GooglePixel4XL", "GooglePixel5", "SamsungGalaxyS20Ultra", "XiaomiMi8"]
PLACES = ["US-MTV", "US-SJC", "US-LAX", "US-EBF"]


def make(raw: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    dates = pd.date_range("2020-05-01", "2021-12-28").strftime("%Y-%m-%d")
    days = sorted(rng.choice(dates, 20 + seed, replace=False))
    _, held_out = split(days, test_size=0.1)
    drives = []
    for day in days:
        place = str(rng.choice(PLACES))
        drives += [f"{day}-{place}-{k + 1}" for k in range(2 if day in held_out else rng.integers(1, 3))]
    # awkward names in the held-out data: two that begin with another name, and one without padding
    first = next(drive for drive in drives if drive.startswith(held_out[0]))
    year, month, day = held_out[1].split("-")
    drives += [f"{first}-b", f"{first}x", f"{year}-{int(month)}-{int(day)}-US-MTV-9"]
    for drive in drives:
        for phone in sorted(rng.choice(PHONES, rng.integers(1, 3), replace=False)):
            _trip(raw / "train" / drive / phone, rng)
    _trip(raw / "test" / "2022-01-01-US-MTV-1" / "GooglePixel5", rng, truth=False)
    (raw / "train" / "readme.txt").write_text("a stray file\n")
    (raw / "metadata").mkdir()
    (raw / "metadata" / "raw_state_bit_map.json").write_text(json.dumps({"0": "STATE_CODE_LOCK"}))
    (raw / "metadata" / "constellation_type_mapping.csv").write_text("constellationType,constellationName\n1,GPS\n")
    (raw / "sample_submission.csv").write_text("tripId,UnixTimeMillis,LatitudeDegrees,LongitudeDegrees\n")


def _trip(folder: Path, rng: np.random.Generator, truth: bool = True) -> None:
    (folder / "supplemental").mkdir(parents=True)
    n = int(rng.integers(3, 12))
    times = int(rng.integers(1588000000, 1640000000)) * 1000 + np.cumsum(rng.choice([1000, 1000, 1000, 3000], n))
    latitude = 37.4 + np.cumsum(rng.normal(0, 1e-4, n))
    longitude = -122.1 + np.cumsum(rng.normal(0, 1e-4, n))
    if rng.random() < 0.3:
        latitude, longitude = latitude.round(7), longitude.round(7)
    if truth:
        positions = pd.DataFrame(
            {
                "MessageType": "Fix",
                "Provider": "GT",
                "LatitudeDegrees": latitude,
                "LongitudeDegrees": longitude,
                "AltitudeMeters": rng.normal(30, 2, n).round(2),
                "UnixTimeMillis": times,
            }
        )
        positions.to_csv(folder / "ground_truth.csv", index=False)
    gnss = f"MessageType,utcTimeMillis,Svid\nRaw,{times[0]},{rng.integers(1, 33)}\n"
    (folder / "device_gnss.csv").write_text(gnss)
    (folder / "device_imu.csv").write_text("MessageType,utcTimeMillis,MeasurementX\n")
    (folder / "supplemental" / "rinex.o").write_text("3.03\n")
    nmea = f"$GPGGA,,{latitude[0]:.5f},N,{-longitude[0]:.5f},W\n"
    (folder / "supplemental" / "span_log.nmea").write_text(nmea)


def submissions(public: Path, private: Path, rng: np.random.Generator) -> dict[str, Any]:
    answers = pd.read_csv(private / "test.csv")
    n = len(answers)
    scale = rng.choice([1e-6, 1e-5, 1e-4], n)
    good = answers.assign(
        LatitudeDegrees=answers["LatitudeDegrees"] + rng.normal(0, 1, n) * scale,
        LongitudeDegrees=answers["LongitudeDegrees"] + rng.normal(0, 1, n) * scale,
    )
    trips = good["tripId"].unique()
    turn = good.assign(k=good.groupby("tripId").cumcount())
    short = good.round(5)
    latitude, longitude, ids = short["LatitudeDegrees"], short["LongitudeDegrees"], short["tripId"]

    return {
        "noisy": good,
        "trips_in_other_order": pd.concat([good[good["tripId"] == trip] for trip in rng.permutation(trips)]),
        "trips_interleaved": turn.sort_values(["k", "tripId"], kind="stable").drop(columns="k"),
        "rows_shuffled": good.sample(frac=1, random_state=0),
        "column_order_and_extra": short.assign(extra=0)[
            ["extra", "LongitudeDegrees", "UnixTimeMillis", "tripId", "LatitudeDegrees"]
        ],
        "five_decimals": short,
        "whole_degrees": short.assign(LatitudeDegrees=37, LongitudeDegrees=-122),
        "other_hemisphere": short.assign(LatitudeDegrees=-latitude, LongitudeDegrees=longitude + 120),
        "full_turns": short.assign(LongitudeDegrees=longitude + 720),
        "poles": short.assign(LatitudeDegrees=np.where(np.arange(n) % 2, -90, 90)),
        **first_value(short, "LatitudeDegrees", one_far_away=-33.9, nan_prediction=None, latitude_out_of_range=130.0),
        **first_value(short, "LatitudeDegrees", text_prediction="north"),
        "times_all_zero": short.assign(UnixTimeMillis=0),
        "times_text": short.assign(UnixTimeMillis="now"),
        "time_shifted": short.assign(UnixTimeMillis=short["UnixTimeMillis"] + 1000),
        **first_value(short, "LongitudeDegrees", infinite=np.inf),
        "text_everywhere": short.assign(LatitudeDegrees="37.4N"),
        "row_in_other_trip": short.assign(tripId=[trips[-1], *ids[1:]]),
        "unknown_trip": short.assign(tripId=ids.replace(trips[0], "2020-01-01-US-MTV-1-GooglePixel5")),
        "missing_row": short.iloc[1:],
        "extra_row": pd.concat([short, short.tail(1)]),
        "duplicate_row": pd.concat([short.iloc[1:], short.tail(1)]),
        "missing_latitude": short.drop(columns="LatitudeDegrees"),
        "missing_time": short.drop(columns="UnixTimeMillis"),
        "original_phone_column": short.rename(columns={"tripId": "phone"}),
        "header_only": short.iloc[:0],
        "empty.csv": "",
    }
