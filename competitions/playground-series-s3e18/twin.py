from pathlib import Path

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.worlds.labels import by_size, correlated, hidden_score, positive_probabilities, standard

from .synthetic import FEATURES, SHARES

COUNTS = ["NumHeteroatoms", "fr_COO", "fr_COO2"]


def make(raw: Path, rng: np.random.Generator, size: str) -> dict[str, pd.DataFrame]:
    n = by_size(size, 1000, 8000, 30000)
    # the world: descriptors of molecules are correlated, and some determine which enzymes act on them
    z = correlated(rng, n, len(FEATURES), factors=9)
    scales, digits = np.exp(rng.uniform(0, 5, len(FEATURES))), rng.integers(1, 5, len(FEATURES))
    table = pd.DataFrame({"id": np.arange(n)})
    for k, feature in enumerate(FEATURES):
        values = scales[k] * np.exp(0.5 * z[:, k])
        absent = z[:, k] < rng.uniform(-2.5, -0.8)  # molecules without this feature
        table[feature] = np.where(absent, 0, values).round(digits[k])
        if feature in COUNTS:
            table[feature] = np.clip((1.5 + 1.5 * z[:, k]).round(), 0, 9).astype(int)
    guesses, previous = {"simple": {}, "ceiling": {}}, None
    for label, share in SHARES.items():
        relevant = rng.choice(len(FEATURES), 8, replace=False)
        plain, score = hidden_score(z[:, relevant], rng, curved=0.7, together=0.9)
        score = score if previous is None else score + 0.5 * previous  # enzymes act together
        previous = standard(score)
        p = positive_probabilities(score, accuracy=max(0.82, share + 0.05, 1.05 - share), positive=share)
        table[label] = (rng.random(n) < p).astype(int)
        if label in ("EC1", "EC2"):
            guesses["ceiling"][label], guesses["simple"][label] = p.round(6), (1 / (1 + np.exp(-plain))).round(6)
    table.to_csv(raw / "train.csv", index=False)
    other = table.drop(columns=list(SHARES)).head(9).assign(id=range(n, n + 9))
    other.to_csv(raw / "test.csv", index=False)
    other[["id"]].assign(EC1=0.5, EC2=0.5).to_csv(raw / "sample_submission.csv", index=False)
    return {name: pd.DataFrame(guess, index=table["id"]) for name, guess in guesses.items()}
