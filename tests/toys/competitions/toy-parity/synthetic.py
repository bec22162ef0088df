from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd


def make(raw: Path, seed: int) -> None:
    """Creates nothing: prepare.py generates the competition's data."""


def submissions(public: Path, private: Path, rng: np.random.Generator) -> dict[str, Any]:
    answers = pd.read_csv(private / "test.csv")
    return {
        "all_odd": answers.assign(odd=1),
        "shuffled": answers.sample(frac=1, random_state=0),
        "missing_row": answers[1:],
        "text": answers.assign(odd="yes"),
        "empty.csv": "",
    }
