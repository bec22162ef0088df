import json
import random
from pathlib import Path

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.files import link, link_files, link_tree
from pytest_mlebench.authoring.rle import encode_rle
from pytest_mlebench.authoring.tables import split, write_csv

BANDS = [f"band_{band:02d}.npy" for band in range(8, 17)]
MASKS = ["human_pixel_masks.npy", "human_individual_masks.npy"]


def prepare(raw: Path, public: Path, private: Path) -> None:
    records = json.loads((raw / "train_metadata.json").read_bytes())
    validation = json.loads((raw / "validation_metadata.json").read_bytes())
    train, test = split(records, test_size=len(validation))
    (public / "train_metadata.json").write_text(json.dumps(train))
    link(raw / "validation_metadata.json", public / "validation_metadata.json")
    link_tree(raw / "validation", public / "validation")
    for part, side, names in ((train, "train", BANDS + MASKS), (test, "test", BANDS)):
        link_files((f"{record['record_id']}/{name}" for record in part for name in names), raw / "train", public / side)

    answers = pd.DataFrame([_answer(raw / "train", record["record_id"]) for record in test])
    write_csv(answers, private / "answers.csv")
    generator = random.Random(0)
    guesses = [generator.choice(["1 3 10 5", "-"]) for _ in test]
    write_csv(answers.assign(encoded_pixels=guesses), public / "sample_submission.csv")


def _answer(folder: Path, record: str) -> dict[str, object]:
    height, width = np.load(folder / record / BANDS[0], mmap_mode="r").shape[:2]
    mask = np.load(folder / record / "human_pixel_masks.npy")[..., 0] == 1
    return {"record_id": record, "encoded_pixels": encode_rle(mask) or "-", "height": height, "width": width}
