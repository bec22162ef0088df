from pathlib import Path

import numpy as np

from .. import synthetic as first
from ..synthetic import submissions as submissions

FRAMES, LENGTH, RECORDING = 11, 2, 5
"""Number of frames in a window, of values in a frame, and of windows in a recording."""


def make(raw: Path, seed: int) -> None:
    """Write windows of recordings; all windows of a recording have the same label."""
    first.make(raw, seed)
    rng, folder = np.random.default_rng(seed), raw / "timit_11" / "timit_11"
    windows, labels = [], []
    for _ in range(30):
        frames = rng.normal(size=(RECORDING + FRAMES - 1, LENGTH)).astype(np.float32)
        windows += [frames[k : k + FRAMES].ravel() for k in range(RECORDING)]
        labels += [str(rng.integers(0, 39))] * RECORDING
    np.save(folder / "train_11.npy", np.array(windows))
    np.save(folder / "train_label_11.npy", np.array(labels, dtype="<U2"))
