import json
from pathlib import Path

import numpy as np

from pytest_mlebench.authoring.archives import read_7z, write_7z

from .. import synthetic as first
from ..synthetic import submissions as submissions

MEMBER = "data/processed/train.json"


def make(raw: Path, seed: int) -> None:
    """Images of the same angle show the same kind of object, as do those without a known angle."""
    first.make(raw, seed)
    path, rng = raw / "train.json.7z", np.random.default_rng(seed)
    images = json.loads(read_7z(path, MEMBER).read())
    angles = [30 + k / 7 for k in range(len(images) // 8)]
    for image in images:
        k = int(rng.integers(len(angles)))
        image["inc_angle"], image["is_iceberg"] = (angles[k], k % 2) if k % 9 else ("na", 0)
    path.unlink()
    write_7z(path, {MEMBER: json.dumps(images)})
