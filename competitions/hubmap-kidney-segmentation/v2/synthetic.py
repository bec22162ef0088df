import json
from pathlib import Path

import pandas as pd

from pytest_mlebench.authoring.rle import mask_from_rle

from .. import synthetic as first
from ..synthetic import submissions as submissions


def make(raw: Path, seed: int) -> None:
    """The outline files contain the answers, as points [x, y] of all marked pixels."""
    first.make(raw, seed)
    information = pd.read_csv(raw / "HuBMAP-20-dataset_information.csv").set_index("image_file")
    for id, encoding in pd.read_csv(raw / "train.csv").itertuples(index=False):
        image = information.loc[f"{id}.tiff"]
        y, x = mask_from_rle(encoding, (image["height_pixels"], image["width_pixels"])).nonzero()
        points = [[int(left), int(top)] for left, top in zip(x, y, strict=True)]
        (raw / "train" / f"{id}.json").write_text(json.dumps([{"geometry": {"coordinates": points}}]))
