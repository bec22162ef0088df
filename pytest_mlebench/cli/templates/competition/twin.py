from pathlib import Path

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.worlds.labels import by_size


def make(raw: Path, rng: np.random.Generator, size: str) -> dict[str, pd.DataFrame]:
    """Write raw data that can be learned from, in the real format; return predictions of known quality by id."""
    n = by_size(size, 600, 3000, 6000)
    houses = pd.DataFrame({"id": [f"{number:06}" for number in range(n)], "rooms": rng.integers(1, 9, n)})
    houses["garden"] = rng.choice(["north", "south", "NA"], n)
    houses["area"] = rng.integers(30, 200, n)

    # The world: `simple` is the price by the obvious pattern alone, `ceiling` by all patterns.
    simple = 100 + rng.uniform(0.5, 1.5) * houses["area"]
    ceiling = simple + 30 * np.sin(houses["area"] / rng.uniform(8, 20)) + rng.normal(0, 20, 9)[houses["rooms"]]
    houses["price"] = (ceiling + rng.normal(0, 15, n)).round(1)
    houses.to_csv(raw / "houses.csv", index=False)
    guesses = {"simple": simple, "ceiling": ceiling}
    return {name: pd.DataFrame({"price": guess.round(2)}).set_index(houses["id"]) for name, guess in guesses.items()}
