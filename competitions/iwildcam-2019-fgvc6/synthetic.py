import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.archives import write_zip
from pytest_mlebench.authoring.synthetic import standard

CLASSES = [0, 1, 3, 4, 8, 10, 11, 13, 14, 16, 17, 18, 19, 22]
OWNERS = ["Justin Brown", "Erin Boydston", 'D. "Mouse", NPS', None]


def make(raw: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = []
    for location in rng.choice(np.arange(1, 160), 25, replace=False):
        n = int(rng.integers(9, 15))
        sequence = _uuid(rng)
        for frame in range(n):
            id = _uuid(rng)
            row = {
                "category_id": int(rng.choice(CLASSES, p=np.r_[0.4, np.full(13, 0.6 / 13)])),
                "date_captured": f"2012-03-{1 + frame:02d} {int(rng.integers(0, 24)):02d}:05:57",
                "file_name": f"{id}.jpg",
                "frame_num": frame % 3 + 1,
                "id": id,
                "location": location,
                "rights_holder": rng.choice(OWNERS),
                "seq_id": sequence,
                "seq_num_frames": 3,
                "width": 1024,
                "height": 747,
            }
            rows.append(row)
    images = pd.DataFrame(rows)
    images = images.iloc[rng.permutation(len(images))].reset_index(drop=True)
    images.to_csv(raw / "train.csv", index=False)
    old = ["t-1", "t-2"]
    for name, ids in (("train_images.zip", images["id"]), ("test_images.zip", old)):
        write_zip(raw / name, {f"{id}.jpg": b"\xff\xd8" + id[:6].encode() for id in ids})
    test = images.drop(columns="category_id").head(2)
    test = test.assign(id=old, file_name=[f"{id}.jpg" for id in old], location=200)
    test.to_csv(raw / "test.csv", index=False)
    pd.DataFrame({"Id": old, "Predicted": 0}).to_csv(raw / "sample_submission.csv", index=False)


def _uuid(rng: np.random.Generator) -> str:
    return str(uuid.UUID(bytes=rng.bytes(16)))


def submissions(public: Path, private: Path, rng: np.random.Generator) -> dict[str, Any]:
    answers = pd.read_csv(private / "answers.csv")
    n = len(answers)
    guess = np.where(rng.random(n) < 0.5, answers["Category"], rng.choice(CLASSES, n))
    noisy = answers.assign(Category=guess)

    unknown = np.where(guess == 1, -7, np.where(guess == 0, 10**12, guess))
    return {
        **standard(noisy, "Id", "t-1", "Category", "nan_prediction text_prediction infinite"),
        "all_empty": noisy.assign(Category=0),
        "class_never_seen": noisy.assign(Category=np.where(guess == 0, 20, guess)),
        "unknown_numbers": noisy.assign(Category=unknown),
        "as_float": noisy.assign(Category=guess.astype(float)),
        "fractions": noisy.assign(Category=guess + 0.9),
        "booleans": noisy.assign(Category=guess > 0),
        "column_order_and_extra": noisy.assign(x=1)[["Category", "x", "Id"]],
        "predicted_header": noisy.rename(columns={"Category": "Predicted"}),
        "missing_id_column": noisy[["Category"]],
        "fraction_in_text_column": noisy.assign(Category=[*map(str, guess[:-1]), "x"]),
    }
