from pathlib import Path

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.worlds.labels import by_size, class_probabilities, draw_classes, hidden_score, standard

from .synthetic import MEASURES

SPREADS = [300, 90, 9, 220, 50, 1200, 25, 20, 35, 1100]
COMMON = np.array([2.7, 4.0, 0.6, -2.7, -4.0, -0.6, 0.3])  # frequency of the seven cover types, as logits


def make(raw: Path, rng: np.random.Generator, size: str) -> dict[str, pd.DataFrame]:
    n = by_size(size, 1000, 6000, 30000)
    area, soil = rng.choice(4, n, p=[0.3, 0.1, 0.5, 0.1]), rng.choice(40, n, p=rng.dirichlet(np.full(40, 0.5)))
    # the world: what grows where. Each area has its own height; soils of a kind are similar
    high = rng.uniform(-1.5, 1.5, 4)[area] + rng.normal(size=n)
    measures = np.column_stack([high, rng.normal(size=(n, 9))])
    measures[:, 6:9] += 0.7 * measures[:, [1]]  # a slope's shade depends on its direction
    kinds = rng.integers(0, 5, 40)[soil]
    places = np.column_stack([measures, rng.normal(size=(5, 3))[kinds], rng.normal(size=(4, 2))[area]])
    likes = [hidden_score(places, rng, curved=0.7, together=0.7) for _ in COMMON]
    belt = -1.5 * (standard(high)[:, None] - rng.permutation(np.linspace(-1.5, 1.5, 7))) ** 2  # preferred heights
    simple = COMMON + 0.6 * np.column_stack([plain for plain, _ in likes]) + 0.6 * belt
    p = class_probabilities(COMMON + 0.6 * np.column_stack([whole for _, whole in likes]) + belt, accuracy=0.88)

    table = pd.DataFrame((measures * SPREADS + 3 * np.array(SPREADS)).round().astype(int), columns=MEASURES)
    for name, count, kind in (("Wilderness_Area", 4, area), ("Soil_Type", 40, soil)):
        table = table.join(pd.DataFrame(np.eye(count, dtype=int)[kind]).add_prefix("x").set_axis(
            [f"{name}{k + 1}" for k in range(count)], axis=1))  # fmt: skip
    table = table.assign(Cover_Type=1 + draw_classes(p, rng)).rename_axis("Id").reset_index()
    table.to_csv(raw / "train.csv", index=False)
    other = table.drop(columns="Cover_Type").head(10).assign(Id=range(n, n + 10))
    other.to_csv(raw / "test.csv", index=False)
    other[["Id"]].assign(Cover_Type=2).to_csv(raw / "sample_submission.csv", index=False)
    guesses = {"simple": simple, "ceiling": p}
    return {
        name: pd.DataFrame({"Cover_Type": 1 + guess.argmax(axis=1)}, table["Id"]) for name, guess in guesses.items()
    }
