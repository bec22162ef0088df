from pathlib import Path

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.synthetic import png

from ..synthetic import BREEDS
from ..synthetic import submissions as submissions

COPIES = 4


def make(raw: Path, seed: int) -> None:
    """Write one photo of each breed, in copies of slightly increasing brightness."""
    rng = np.random.default_rng(seed)
    (raw / "train").mkdir()
    rows = []
    for breed in BREEDS:
        photo = rng.integers(0, 200, (8, 9, 3), dtype=np.uint8)
        for copy in range(COPIES):
            id = rng.bytes(16).hex()
            rows.append((id, breed))
            # PNG despite its name, because the output of JPEG encoders varies between versions
            (raw / "train" / f"{id}.jpg").write_bytes(png(photo + np.uint8(copy)))
    pd.DataFrame(sorted(rows), columns=["id", "breed"]).to_csv(raw / "labels.csv", index=False)
