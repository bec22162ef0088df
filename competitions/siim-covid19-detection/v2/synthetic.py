from pathlib import Path

import pandas as pd

from .. import synthetic as first
from ..synthetic import submissions as submissions


def make(raw: Path, seed: int) -> None:
    """The first opacity of an image overlaps another one by more than half."""
    first.make(raw, seed)
    images = pd.read_csv(raw / "train_image_level.csv")
    images["label"] = [_with_another(label) for label in images["label"]]
    images.to_csv(raw / "train_image_level.csv", index=False)


def _with_another(label: str) -> str:
    name, *numbers = label.split()[:6]
    if name == "none":
        return label
    confidence, x0, y0, x1, y1 = map(float, numbers)
    return f"{label} opacity {confidence:g} {x0 + 0.2 * (x1 - x0):.1f} {y0} {x1 + 0.2 * (x1 - x0):.1f} {y1}"
