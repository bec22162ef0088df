from itertools import count
from pathlib import Path

import pandas as pd

from pytest_mlebench.authoring.archives import open_zip, unpack_zip, write_zip
from pytest_mlebench.authoring.tables import split, write_csv


def prepare(raw: Path, public: Path, private: Path) -> None:
    with open_zip(raw / "train.zip") as archive:
        images = sorted(name for name in archive.namelist() if name.startswith("train/") and name.endswith(".jpg"))
    train, test = split(images, test_size=0.1)
    number = {"cat": count(), "dog": count()}
    kinds = ["cat" if "cat" in image else "dog" for image in train]
    names = {image: f"train/{kind}.{next(number[kind])}.jpg" for image, kind in zip(train, kinds, strict=True)}
    names |= {image: f"test/{k}.jpg" for k, image in enumerate(test, start=1)}
    unpack_zip(raw / "train.zip", public, names)
    for side in ("train", "test"):
        write_zip(public / f"{side}.zip", ((image.name, image) for image in sorted((public / side).iterdir())))
    answers = pd.DataFrame({"id": range(1, len(test) + 1), "label": [int("dog" in image) for image in test]})
    write_csv(answers, private / "answers.csv")
    write_csv(answers.assign(label=0.5), public / "sample_submission.csv")
