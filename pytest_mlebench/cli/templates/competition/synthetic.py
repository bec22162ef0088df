from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.synthetic import standard
from pytest_mlebench.authoring.tables import read_text_csv


def make(raw: Path, seed: int) -> None:
    """Write a small imitation of the raw data with its edge cases, the same for the same seed."""
    rng = np.random.default_rng(seed)
    houses = pd.DataFrame({"id": [f"{number:06}" for number in range(100)], "rooms": rng.integers(1, 9, 100)})
    houses["garden"] = rng.choice(["north", "south", "NA"], 100)
    houses["area"] = rng.integers(30, 200, 100)
    houses["price"] = (0.8 * houses["area"] + 5 * houses["rooms"] + rng.normal(0, 5, 100)).round(1)
    houses.to_csv(raw / "houses.csv", index=False)


def submissions(public: Path, private: Path, rng: np.random.Generator) -> dict[str, Any]:
    answers = read_text_csv(private / "test.csv", numbers=["price"])
    noisy = answers.assign(price=answers["price"] + rng.normal(0, 10, len(answers)).round(2))
    return {
        "extra_column": noisy.assign(note="x"),
        **standard(noisy, "id", -1, "price", "missing_column missing_id nan_prediction text_prediction infinite"),
    }
