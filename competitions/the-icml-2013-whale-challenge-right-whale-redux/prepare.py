import re
from pathlib import Path

import pandas as pd

from pytest_mlebench.authoring.archives import copy_members, open_zip
from pytest_mlebench.authoring.tables import write_csv
from pytest_mlebench.errors import DataError


def prepare(raw: Path, public: Path, private: Path) -> None:
    with open_zip(raw / "train2.zip") as archive:
        clips = sorted(name.removeprefix("train2/") for name in archive.namelist() if name.endswith(".aif"))
    dates = sorted({clip.split("_")[0] for clip in clips})
    if len(dates) != 4:
        raise DataError(f"train2.zip contains clips of {len(dates)} days; 4 were expected")
    train = [clip for clip in clips if clip.startswith(tuple(dates[:2]))]
    test = [clip for clip in clips if clip.startswith(tuple(dates[2:]))]
    train_names = [re.sub(r"TRAIN\d+", f"TRAIN{k}", clip) for k, clip in enumerate(train)]
    test_names = [f"{clip.partition('TRAIN')[0]}Test{k}.aif" for k, clip in enumerate(test)]
    for folder, old, new in (("train2", train, train_names), ("test2", test, test_names)):
        names = {f"train2/{clip}": f"{folder}/{name}" for clip, name in zip(old, new, strict=True)}
        copy_members(raw / "train2.zip", public / f"{folder}.zip", names)

    answers = pd.DataFrame({"clip": test_names, "probability": [int(clip.endswith("_1.aif")) for clip in test]})
    write_csv(answers, private / "test.csv")
    write_csv(answers.assign(probability=0), public / "sampleSubmission.csv")
