from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pytest_mlebench.authoring.corrections import hold_out_groups

from .. import prepare as first
from ..arrays import open_array

FRAMES = 11
"""Number of frames in a window. Each row is a window."""
BLOCK = 1 << 14


def prepare(raw: Path, public: Path, private: Path) -> None:
    rows, test_size = first.frames(raw)
    numbers = recordings(raw / first.FOLDER / "train_11.npy")
    train, test = hold_out_groups(lambda rows: numbers)(rows, test_size=test_size)
    first.write_sides(train, test, raw, public, private)


def recordings(path: Path) -> NDArray[np.intp]:
    """Return the number of each row's recording. One begins if a window does not continue the previous window."""
    windows = open_array(path)
    width = windows.shape[1] // FRAMES
    begins = np.ones(len(windows), dtype=bool)
    for start in range(1, len(windows), BLOCK):
        stop = min(start + BLOCK, len(windows))
        begins[start:stop] = (windows[start - 1 : stop - 1, width:] != windows[start:stop, :-width]).any(axis=1)
    return np.cumsum(begins)
