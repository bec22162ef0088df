from pathlib import Path, PurePosixPath

import numpy as np
import pandas as pd
from PIL import Image

from pytest_mlebench.authoring.archives import open_member, open_zip, unpack_zip
from pytest_mlebench.authoring.tables import split, write_csv


def prepare(raw: Path, public: Path, private: Path) -> None:
    write_sides(*split(pages(raw), test_size=0.2), raw, public, private)


def pages(raw: Path) -> list[str]:
    with open_zip(raw / "train.zip") as archive:
        names = [name for name in archive.namelist() if name.startswith("train/") and name.endswith(".png")]
    return sorted(name.removeprefix("train/") for name in names)


def write_sides(train: list[str], test: list[str], raw: Path, public: Path, private: Path) -> None:
    noisy = {f"train/{page}": f"train/{page}" for page in train} | {f"train/{page}": f"test/{page}" for page in test}
    unpack_zip(raw / "train.zip", public, noisy)
    unpack_zip(raw / "train_cleaned.zip", public, {f"train_cleaned/{page}": f"train_cleaned/{page}" for page in train})
    with open_zip(raw / "train_cleaned.zip") as archive:
        for k, page in enumerate(sorted(test)):
            with open_member(archive, f"train_cleaned/{page}") as file, Image.open(file) as image:
                pixels = _pixels(PurePosixPath(page).stem, np.asarray(image.convert("L")))
            write_csv(pixels, private / "answers.csv", mode="a", header=k == 0)
            write_csv(pixels.assign(value=1), public / "sampleSubmission.csv", mode="a", header=k == 0)


def _pixels(page: str, gray: np.ndarray) -> pd.DataFrame:
    rows, columns = (range(1, size + 1) for size in gray.shape)
    ids = [f"{start}{column}" for start in (f"{page}_{row}_" for row in rows) for column in columns]
    return pd.DataFrame({"id": ids, "value": gray.ravel() / 255})
