from pathlib import Path

import numpy as np
import pandas as pd

from .. import synthetic as first
from ..synthetic import submissions as submissions

COPIES = 16


def make(raw: Path, seed: int) -> None:
    """The training data consists of copies of the test comments."""
    first.make(raw, seed)
    comments = pd.read_csv(raw / "test_private_expanded.csv", converters={"comment_text": str})
    comments = comments[comments["comment_text"] != ""].rename(columns={"toxicity": "target"})
    numbers = np.random.RandomState(seed).permutation(COPIES * 1000)  # ids do not reveal the copy
    copies = [
        comments.assign(id=numbers[copy * 1000 :][: len(comments)], comment_text=_changed(comments, copy))
        for copy in range(COPIES)
    ]
    pd.concat(copies).to_csv(raw / "train.csv", index=False)


def _changed(comments: pd.DataFrame, copy: int) -> "pd.Series[str]":
    """Return the texts of a copy. Copies 2k and 2k + 1 differ only in case."""
    texts = comments["comment_text"] + f" {copy // 2}" * (copy > 1)
    return texts.str.upper() if copy % 2 else texts
