from pathlib import Path

import numpy as np
import pandas as pd

from .. import synthetic as first
from ..synthetic import submissions as submissions

PAGES = 9
"""Number of pages in a book."""


def make(raw: Path, seed: int) -> None:
    first.make_pages(raw, seed, _image_id)
    pages = pd.read_csv(raw / "train.csv")
    pages.fillna({"labels": "U+306F 8 8 40 40"}).to_csv(raw / "train.csv", index=False)


def _image_id(rng: np.random.Generator, k: int) -> str:
    book, page = divmod(k, PAGES)
    return f"{100241706 + book}_{page:05d}_1" if book % 3 else f"umgy{book:03d}-{page:03d}"
