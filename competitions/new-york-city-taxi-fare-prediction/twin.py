from pathlib import Path

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.worlds.labels import by_size

from .prepare import TEST_ROWS

KM = np.array([111.2 * np.cos(np.deg2rad(40.75)), 111.2])  # per degree of longitude and latitude
CENTRE = np.array([-73.98, 40.75])


def make(raw: Path, rng: np.random.Generator, size: str) -> dict[str, pd.DataFrame]:
    """The test always has 9914 rides."""
    n = TEST_ROWS + by_size(size, 500, 12000, 60000)
    # the world: streets at an angle, airports with fixed prices, slow hours, a toll, and a price rise
    angle, airports = rng.uniform(0, np.pi / 2), rng.uniform(8, 18, (2, 1)) * _unit(rng.uniform(0, 2 * np.pi, 2))
    start, rate, flat = rng.uniform(2, 4), rng.uniform(1.5, 2.2), rng.uniform(38, 55, 2)
    bank, toll, rise = rng.uniform(2, 4), rng.uniform(5, 8), rng.uniform(1.15, 1.35)
    peaks, jam = rng.choice(24, 2, replace=False), rng.uniform(0.3, 0.6)

    ends = rng.normal(0, [2.2, 3.5], (2, n, 2))
    away = rng.random((2, n)) < 0.05
    ends[away] = airports[rng.integers(0, 2, away.sum())] + rng.normal(0, 0.4, (away.sum(), 2))
    seconds = rng.integers(1230768000, 1435708800, n)
    when = pd.Series(pd.to_datetime(seconds, unit="s"))
    hour = when.dt.hour.to_numpy()
    turned = (ends[0] - ends[1]) @ np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    way, straight = np.abs(turned).sum(axis=1), np.hypot(*turned.T)
    slow = np.exp(-0.5 * (((hour[:, None] - peaks + 12) % 24 - 12) / 1.5) ** 2).max(axis=1)
    slow = np.where(when.dt.day_of_week < 5, slow, 0)
    fare = start + rate * way * (1 + jam * slow) + np.where((ends[0, :, 0] > bank) != (ends[1, :, 0] > bank), toll, 0)
    fare = np.where(seconds > 1346716800, rise, 1) * fare
    for airport, price in zip(airports, flat, strict=True):
        fare = np.where(np.hypot(*(ends[0] - airport).T) < 1.5, price, fare)
    paid = np.maximum(fare * np.exp(rng.normal(0, 0.12, n)) + rng.choice([0, 0, 0, 1, 5], n), 2.5)
    paid = np.where(rng.random(n) < 0.02, np.minimum(rng.gamma(2, 12, n) + 2.5, 90), paid)  # prices agreed in advance
    simple = np.poly1d(np.polyfit(straight, paid, 1))(straight)

    places = (CENTRE + ends / KM).round(6)
    lost = rng.random(n) < 0.01
    places[:, lost] = 0
    guesses = {}
    for name, known in (("simple", simple), ("ceiling", fare + 1.2)):
        guesses[name] = np.where(lost, paid.mean(), known).round(2)
    shown = when.astype(str)
    rides = pd.DataFrame({"key": shown + "." + pd.Series(rng.permutation(n) + 1).astype(str).str.zfill(7)})
    rides = rides.assign(fare_amount=(2 * paid).round() / 2, pickup_datetime=shown + " UTC")
    for end, place in zip(("pickup", "dropoff"), places, strict=True):
        rides[[f"{end}_longitude", f"{end}_latitude"]] = place
    rides["passenger_count"] = rng.choice([1, 2, 3, 4, 5, 6, 0], n, p=[0.69, 0.15, 0.04, 0.02, 0.07, 0.02, 0.01])
    rides.loc[rng.random(n) < 0.001, ["dropoff_longitude", "dropoff_latitude"]] = np.nan
    rides.to_csv(raw / "train.csv", index=False)
    other = rides.drop(columns="fare_amount").head(5)
    other.to_csv(raw / "test.csv", index=False)
    other[["key"]].assign(fare_amount=11.35).to_csv(raw / "sample_submission.csv", index=False)
    (raw / "GCP-Coupons-Instructions.rtf").write_bytes(b"{\\rtf1\\ansi coupons}\r\n")
    return {name: pd.DataFrame({"fare_amount": guess}, rides["key"]) for name, guess in guesses.items()}


def _unit(turn: np.ndarray) -> np.ndarray:
    return np.column_stack([np.cos(turn), np.sin(turn)])
