from pathlib import Path

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.worlds.labels import add_noise, by_size, random_names
from pytest_mlebench.authoring.worlds.text import Language

SHARES = [0.07, 0.27, 0.37, 0.22, 0.06, 0.01]


def make(raw: Path, rng: np.random.Generator, size: str) -> dict[str, pd.DataFrame]:
    n, other = by_size(size, 600, 5200, 12000), 3
    # the world: essays are better if they are longer, with good words and few misspelt ones
    language = Language(rng, cues=50)
    lengths = rng.lognormal(4.3, 0.4, n + other).astype(int).clip(20, 300)
    texts = language.write(rng, lengths, density=0.2)
    full, _ = language.read(texts)
    careless = rng.beta(1.2, 8, len(texts))
    essays = [_misspelt(rng, text, share) for text, share in zip(texts, careless, strict=False)]
    size_counts = _standard(np.log(lengths))
    signal = _standard(0.8 * size_counts + _standard(full[:, 0] / np.sqrt(lengths)) - 0.7 * _standard(careless))
    total = _standard(add_noise(signal, rng, r2=0.85))
    levels = np.quantile(total, np.cumsum(SHARES)[:-1])
    scores = np.digitize(total, levels) + 1
    table = pd.DataFrame({"essay_id": random_names(rng, n + other, 7), "full_text": essays, "score": scores})
    table[:n].to_csv(raw / "train.csv", index=False)
    table[n:].drop(columns="score").to_csv(raw / "test.csv", index=False)
    table.loc[n:, ["essay_id"]].assign(score=3).to_csv(raw / "sample_submission.csv", index=False)
    # for the quadratic kappa, predictions with the same spread as the scores are best
    guesses = {"simple": np.digitize(size_counts, levels) + 1, "ceiling": np.digitize(signal, levels) + 1}
    return {name: pd.DataFrame({"score": guess}, table["essay_id"]) for name, guess in guesses.items()}


def _misspelt(rng: np.random.Generator, text: str, share: float) -> str:
    words = text.split()
    for k in np.flatnonzero(rng.random(len(words)) < share):
        words[k] = words[k][:2] + "h" + words[k][2:]  # no word has this letter
    for k in range(40, len(words), 60):
        words[k] = "\n\n" + words[k]
    return " ".join(words)


def _standard(values: np.ndarray) -> np.ndarray:
    return (values - values.mean()) / values.std()
