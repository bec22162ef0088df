from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from .. import synthetic as first
from ..synthetic import make as make

SHAKEN = ["jittered", "same_confidence", "same_confidence_reversed", "many_boxes", "negative_confidence"]


def submissions(public: Path, private: Path, rng: np.random.Generator) -> dict[str, Any]:
    """Return version 1's submissions, with sorted corners in those with changed boxes."""
    tables = first.submissions(public, private, rng)
    return tables | {name: _in_order(tables[name]) for name in [*SHAKEN, "confidence_above_one"]}


def _in_order(table: pd.DataFrame) -> pd.DataFrame:
    texts = []
    for text in table["PredictionString"]:
        boxes = np.array(text.split(), dtype=float).reshape(-1, 6)
        boxes[:, 2:] = np.sort(boxes[:, 2:].reshape(-1, 2, 2), axis=1).reshape(-1, 4)
        texts.append(" ".join(" ".join([f"{box[0]:.0f}", *map(str, box[1:].tolist())]) for box in boxes))
    return table.assign(PredictionString=texts)
