from pathlib import Path

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.worlds.labels import by_size, random_names

SHAPE = (6, 39, 36)  # cadence, time, frequency; the real snippets have (6, 273, 256), fifty times as many bytes


def make(raw: Path, rng: np.random.Generator, size: str) -> dict[str, pd.DataFrame]:
    n, old = by_size(size, 500, 760, 1500), by_size(size, 4, 10, 20)
    ids = random_names(rng, n + old, 12)
    # the world: a needle appears only while the telescope points at the star; other lines are always present
    drift, width = rng.uniform(0.3, 0.7), rng.uniform(0.6, 1.0)
    kinds = rng.choice(["needle", "always", "never"], n + old, p=[0.35, 0.25, 0.4])
    chance = np.where(kinds == "needle", 0.96, 0.03)
    labels = pd.DataFrame({"id": ids, "target": (rng.random(n + old) < chance).astype(int)})
    for k, (id, kind) in enumerate(zip(ids, kinds, strict=True)):
        folder = raw / "train" / id[0] if k < n else raw / "old_leaky_data" / "train_old" / id[0]
        folder.mkdir(parents=True, exist_ok=True)
        np.save(folder / f"{id}.npy", _snippet(rng, kind, drift, width))
    labels[:n].to_csv(raw / "train_labels.csv", index=False)
    labels[n:].to_csv(raw / "old_leaky_data" / "train_labels_old.csv", index=False)
    (raw / "old_leaky_data" / "README.txt").write_bytes(b"data before the relaunch\n")
    labels.head(4).assign(target=0.5).to_csv(raw / "sample_submission.csv", index=False)
    guesses = {"simple": np.where(kinds == "never", 0.03, 0.6), "ceiling": chance}
    return {name: pd.DataFrame({"target": p}, labels["id"]) for name, p in guesses.items()}


def _snippet(rng: np.random.Generator, kind: str, drift: float, width: float) -> np.ndarray:
    values = rng.normal(size=SHAPE) + rng.uniform(0, 1.2) * rng.normal(size=(1, 1, SHAPE[2]))  # some bands are noisy
    if kind != "never":
        time, slope = np.arange(6 * SHAPE[1]).reshape(6, -1), rng.choice([-1, 1]) * drift * rng.uniform(0.3, 1.2) / 6
        path = rng.uniform(8, SHAPE[2] - 8) + slope * (time - time.mean())
        line = np.exp(-0.5 * ((np.arange(SHAPE[2]) - path[..., None]) / width) ** 2)
        if kind == "needle":
            line[1::2] = 0
        elif rng.random() < 0.5:
            line[rng.integers(6)] = 0
        values += rng.uniform(0.8, 2.5) * line
    return ((values - values.mean()) / values.std()).round(3).astype(np.float16)
