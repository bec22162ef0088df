import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd

from pytest_mlebench.authoring.archives import read_7z, unpack_7z, write_7z
from pytest_mlebench.authoring.tables import split, write_csv

Images = list[dict[str, Any]]


def prepare(raw: Path, public: Path, private: Path) -> None:
    write_sides(*split(read_images(raw), test_size=0.2), raw, public, private)


def read_images(raw: Path) -> Images:
    return json.loads(read_7z(raw / "train.json.7z", "data/processed/train.json").read())


def write_sides(train: Images, test: Images, raw: Path, public: Path, private: Path) -> None:
    with TemporaryDirectory(dir=public.parent) as scratch:
        old, new = Path(scratch, "data", "processed"), Path(scratch)
        unpack_7z(raw / "test.json.7z", new)
        keys = list(_first_object(old / "test.json"))
        unlabelled = [{key: image[key] for key in keys} for image in test]
        for name, images in (("train.json", train), ("test.json", unlabelled)):
            (new / name).write_text(json.dumps(images))
            write_7z(public / f"{name}.7z", {name: new / name})
    answers = pd.DataFrame({key: [image[key] for image in test] for key in ("id", "is_iceberg")})
    write_csv(answers, private / "test.csv")
    sample = private / "sample_submission.csv"
    write_csv(answers.assign(is_iceberg=0.5), sample)
    write_7z(public / "sample_submission.csv.7z", {sample.name: sample})


def _first_object(path: Path) -> Any:
    """Return the first object of a JSON list, without reading all of a large file. Raises ValueError if it has none."""
    text = ""
    with path.open(encoding="utf-8") as file:
        while block := file.read(1 << 20):
            text += block
            try:
                return json.JSONDecoder().raw_decode(text.lstrip("[ \n"))[0]
            except json.JSONDecodeError:
                continue  # incomplete: read the next block
    raise ValueError(f"{path.name} contains no object")
