from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from pytest_mlebench.authoring.worlds.labels import by_size
from pytest_mlebench.authoring.worlds.media import coloured_noise

from .labels import VOTES
from .synthetic import CLASSES, COLUMNS

LEFT, RIGHT = ["Fp1", "F3", "C3", "P3", "F7", "T3", "T5", "O1"], ["F4", "C4", "P4", "F8", "T4", "T6", "O2", "Fp2"]
ELECTRODES = [*LEFT, "Fz", "Cz", "Pz", *RIGHT, "EKG"]
RATE, FRAMES = 200, 500  # the real recordings last 50 seconds or more: twenty times as many bytes
REGIONS, FREQUENCIES, STEPS = ["LL", "RL", "LP", "RP"], [0.59, 1.17, 1.76, 2.54, 3.52, 5.08, 7.03, 10.0, 13.1, 19.9], 30
PAIR = [5, 2, 1, 4, 3, 0]  # the class with which each is confused by ignoring location or duration


def make(raw: Path, rng: np.random.Generator, size: str) -> dict[str, pd.DataFrame]:
    n = by_size(size, 400, 800, 1500)  # number of recordings
    # the world: how fast the patterns of each class repeat, and how experts differ
    beat = {"PD": rng.uniform(1.2, 2.2), "RDA": rng.uniform(1.2, 2.5), "Seizure": rng.uniform(4, 7)}
    votes = 0.3 * rng.dirichlet(np.full(6, 1.0), 6) + 0.7 * np.eye(6)
    usual = rng.dirichlet(np.full(6, 3.0))
    numbers = iter(rng.permutation(np.arange(500_000, 4_000_000_000, 99_991))[: 6 * n].tolist())
    spectrograms = [next(numbers) for _ in range(n // 2)]
    patients = rng.integers(56, 65494, len(spectrograms))[rng.integers(0, len(spectrograms), len(spectrograms))]
    for folder in ("train_eegs", "train_spectrograms", "test_eegs", "test_spectrograms", "example_figures"):
        (raw / folder).mkdir()
    rows, guesses = [], {"simple": [], "ceiling": []}
    for place in range(n):
        eeg, spectrogram, sub = next(numbers), spectrograms[place // 2], 2 * (place % 2)
        label = int(rng.choice(6, p=0.5 * usual + 0.5 / 6))
        sure = rng.uniform(0.6, 1)  # how clear the pattern is
        _write(raw / "train_eegs" / f"{eeg}.parquet", ELECTRODES, _eeg(rng, label, sure, beat))
        chances = sure * votes[label] + (1 - sure) * votes[5]
        mixed = 0.5 * chances + 0.5 * (sure * votes[PAIR[label]] + (1 - sure) * votes[5])
        for k in range(rng.choice([1, 2], p=[0.7, 0.3])):
            counts = rng.multinomial(rng.choice([3, 5, 10, 15]), chances)
            at = 2.0 * k
            rows.append([eeg, k, at, spectrogram, sub + k, at, next(numbers), patients[place // 2],
                         CLASSES[int(counts.argmax())], *counts])  # fmt: skip
            guesses["ceiling"].append([eeg, *chances.round(6)])
            guesses["simple"].append([eeg, *mixed.round(6)])
        if place % 2 == 0:
            power = np.exp(rng.normal(0, 1, (STEPS, 1)) + 0.3 * rng.normal(size=(STEPS, 40)))
        else:
            power = power * 1.2
        near = np.exp(-0.5 * ((np.array(FREQUENCIES) - (beat["Seizure"] if label == 0 else beat["RDA"])) / 0.7) ** 2)
        side = np.array([1, label in (2, 4, 0), 1, label in (2, 4, 0)])
        half = slice(STEPS // 2 * (place % 2), STEPS // 2 * (place % 2 + 1))
        if label != 5:
            power[half] *= 1 + 3 * sure * np.outer(side, near).ravel()
        if place % 2 == 1:
            columns = ["time", *(f"{region}_{hertz}" for region in REGIONS for hertz in FREQUENCIES)]
            values = np.column_stack([np.arange(STEPS) * 2 + 1, power.round(2)])
            _write(raw / "train_spectrograms" / f"{spectrogram}.parquet", columns, values)
    table = pd.DataFrame(rows, columns=COLUMNS).sort_values("eeg_id", kind="stable")
    table.to_csv(raw / "train.csv", index=False)
    other = table[["spectrogram_id", "eeg_id", "patient_id"]].head(2)
    other.to_csv(raw / "test.csv", index=False)
    other[["eeg_id"]].assign(**dict.fromkeys(VOTES, 1 / 6)).to_csv(raw / "sample_submission.csv", index=False)
    (raw / "example_figures" / "Sample01.pdf").write_bytes(b"%PDF-1.4\n")
    return {name: _shares(values) for name, values in guesses.items()}


def _shares(rows: list[list[float]]) -> pd.DataFrame:
    table = pd.DataFrame(rows, columns=["eeg_id", *VOTES]).astype({"eeg_id": int}).set_index("eeg_id")
    return table.assign(other_vote=(1 - table[VOTES[:-1]].sum(axis=1)).round(6))


def _eeg(rng: np.random.Generator, label: int, sure: float, beat: dict[str, float]) -> np.ndarray:
    """Return spikes for periodic discharges, and a slow wave for rhythmic delta activity, some on one side only."""
    time = np.arange(FRAMES)[:, None] / RATE + rng.uniform(0, 1)
    values = 18 * coloured_noise(rng, (len(ELECTRODES), FRAMES), 1.2).T
    if label in (1, 2):
        turn = time * beat["PD"] * rng.uniform(0.85, 1.15) % 1
        wave = 5 * np.exp(-0.5 * ((turn - 0.5) / 0.05) ** 2) - 0.6
    elif label == 0:
        wave = np.sin(2 * np.pi * beat["Seizure"] * time * (1 + 0.05 * time))
    else:
        wave = np.sin(2 * np.pi * beat["RDA"] * rng.uniform(0.85, 1.15) * time)
    if label != 5:
        side = rng.integers(2)
        left = [side == 0 or label not in (1, 3) for _ in LEFT]
        right = [side == 1 or label not in (1, 3) for _ in RIGHT]
        where = np.array([*left, *[label not in (1, 3)] * 3, *right, False], float)
        values += 30 * sure * wave * where * rng.uniform(0.7, 1.3, len(where))
    return np.rint(values / 4) * 4


def _write(path: Path, columns: list[str], values: np.ndarray) -> None:
    arrays = [pa.array(column.astype(np.float32)) for column in values.T]
    pq.write_table(pa.table(dict(zip(columns, arrays, strict=True))), path, write_statistics=False, store_schema=False)
