from itertools import count
from pathlib import Path

import pandas as pd

from pytest_mlebench.data.archives import open_zip, unpack_zip, write_zip
from pytest_mlebench.data.tables import split, write_csv


def prepare(raw: Path, public: Path, private: Path) -> None:
    with open_zip(raw / "train.zip") as archive:
        pictures = sorted(name for name in archive.namelist() if name.startswith("train/") and name.endswith(".jpg"))
    train, test = split(pictures, test_size=0.1)
    number = {"cat": count(), "dog": count()}
    kinds = ["cat" if "cat" in picture else "dog" for picture in train]
    names = {picture: f"train/{kind}.{next(number[kind])}.jpg" for picture, kind in zip(train, kinds, strict=True)}
    names |= {picture: f"test/{k}.jpg" for k, picture in enumerate(test, start=1)}
    unpack_zip(raw / "train.zip", public, names)
    for side in ("train", "test"):
        write_zip(public / f"{side}.zip", ((picture.name, picture) for picture in sorted((public / side).iterdir())))
    answers = pd.DataFrame({"id": range(1, len(test) + 1), "label": [int("dog" in picture) for picture in test]})
    write_csv(answers, private / "answers.csv")
    write_csv(answers.assign(label=0.5), public / "sample_submission.csv")
