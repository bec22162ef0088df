from pathlib import Path

import pandas as pd

from .. import synthetic as first
from ..synthetic import submissions as submissions


def make(raw: Path, seed: int) -> None:
    """Some articles have two questions."""
    first.make(raw, seed)
    rows = pd.read_csv(raw / "train.csv", dtype={"answer_text": str})
    article = ["context", "answer_text", "answer_start", "language"]
    rows.loc[rows.index % 3 == 1, article] = rows.loc[rows.index % 3 == 0, article].to_numpy()
    rows.to_csv(raw / "train.csv", index=False)
