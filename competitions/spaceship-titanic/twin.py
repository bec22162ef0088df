from pathlib import Path

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.worlds.labels import by_size, positive_probabilities, with_missing
from pytest_mlebench.authoring.worlds.text import lexicon

AMENITIES = ["RoomService", "FoodCourt", "ShoppingMall", "Spa", "VRDeck"]


def make(raw: Path, rng: np.random.Generator, size: str) -> dict[str, pd.DataFrame]:
    n = by_size(size, 1000, 6000, 9000)
    group = np.repeat(np.arange(1, n + 1), rng.choice([1, 2, 3, 5], n, p=[0.7, 0.15, 0.1, 0.05]))[:n]
    planet, deck, side = (rng.choice(k, n + 1)[group] for k in (3, 7, 2))  # same for a travel group
    destination, age = rng.choice(3, n, p=[0.7, 0.2, 0.1]), rng.gamma(4, 7, n).round().clip(0, 79)
    asleep = rng.random(n) < 0.35
    spent = np.where(asleep[:, None] | (rng.random((n, 5)) < 0.4), 0, rng.lognormal(5, 1.5, (n, 5)).round())

    # the world: whom the anomaly transported
    score = rng.normal(0, 0.6, 3)[planet] + rng.normal(0, 0.6, 7)[deck] + rng.normal(0, 0.4, 2)[side]
    score = score + rng.normal(0, 0.3, 3)[destination] + rng.choice([-1, 1]) * 0.5 * np.cos(age / rng.uniform(8, 14))
    score = plain = score + np.log1p(spent) @ rng.normal(0, 0.25, 5)
    score = score + rng.normal(0, 1, (3, 2))[planet, asleep.astype(int)]  # an interaction
    score = score + rng.normal(0, 0.5, n + 1)[group]
    p = positive_probabilities(score, accuracy=0.86)

    first, last = lexicon(rng, 60), lexicon(rng, n + 1)
    people = pd.DataFrame(
        {
            "PassengerId": [
                f"{g:04d}_{k + 1:02d}" for g, k in zip(group, pd.Series(group).groupby(group).cumcount(), strict=False)
            ],
            "HomePlanet": np.array(["Earth", "Europa", "Mars"])[planet],
            "CryoSleep": asleep,
            "Cabin": [
                f"{'ABCDEFG'[d]}/{k}/{'PS'[s]}"
                for d, k, s in zip(deck, rng.integers(0, 1900, n + 1)[group], side, strict=False)
            ],
            "Destination": np.array(["TRAPPIST-1e", "55 Cancri e", "PSO J318.5-22"])[destination],
            "Age": age,
            "VIP": rng.random(n) < 0.02,
            **dict(zip(AMENITIES, spent.T, strict=True)),
            "Name": [f"{a.title()} {last[g].title()}" for a, g in zip(rng.choice(first, n), group, strict=False)],
            "Transported": rng.random(n) < p,
        }
    )
    people = with_missing(people, list(people.columns[1:-1]), 0.02, rng)
    unlabelled = people.drop(columns="Transported").tail(n // 3)
    people.to_csv(raw / "train.csv", index=False)
    unlabelled.to_csv(raw / "test.csv", index=False)
    unlabelled[["PassengerId"]].assign(Transported=False).to_csv(raw / "sample_submission.csv", index=False)
    guesses = {"simple": plain > np.median(plain), "ceiling": p > 0.5}
    return {name: pd.DataFrame({"Transported": guess}, people["PassengerId"]) for name, guess in guesses.items()}
