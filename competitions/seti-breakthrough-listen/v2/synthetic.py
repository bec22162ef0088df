from pathlib import Path

import numpy as np
import pandas as pd

from .. import synthetic as first
from ..synthetic import submissions as submissions


def make(raw: Path, seed: int) -> None:
    """The old data contains every recording under another name, with its label."""
    first.make(raw, seed)
    old, rng = raw / "old_leaky_data", np.random.default_rng(seed)
    labels = pd.read_csv(raw / "train_labels.csv")
    names = [f"{rng.integers(16**12):012x}" for _ in labels["id"]]
    for name, id in zip(names, labels["id"], strict=True):
        target = old / "train_old" / name[0] / f"{name}.npy"
        target.parent.mkdir(exist_ok=True)
        target.write_bytes((raw / "train" / id[0] / f"{id}.npy").read_bytes())
    labels.assign(id=names).to_csv(old / "train_labels_old.csv", index=False)
