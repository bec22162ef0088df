from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.synthetic import standard
from pytest_mlebench.authoring.tfrecord import tfrecord

RECORD_FILES = [f"train{k:02d}-2071" for k in (0, 1, 2, 5, 6, 10)] + ["train15-2061"]


def make(raw: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = 103 + seed
    names = [f"ISIC_{i:07d}" for i in np.sort(rng.choice(9_999_999, n, replace=False))]
    target = (rng.random(n) < 0.25).astype(int)
    target[:3] = [0, 1, 0]
    sites = ["torso", "lower extremity", "head/neck", "palms/soles", None]
    train = pd.DataFrame(
        {
            "image_name": names,
            "patient_id": [f"IP_{i:07d}" for i in rng.integers(0, 40, n)],
            "sex": rng.choice(["male", "female", None], n, p=[0.5, 0.42, 0.08]),
            "age_approx": rng.choice([15.0, 40.0, 45.0, 60.0, 90.0, np.nan], n),
            "anatom_site_general_challenge": rng.choice(sites, n),
            "diagnosis": np.where(target == 1, "melanoma", rng.choice(["nevus", "unknown", "lichenoid keratosis"], n)),
            "benign_malignant": np.where(target == 1, "malignant", "benign"),
            "target": target,
        }
    )
    train.to_csv(raw / "train.csv", index=False)
    test = train.iloc[:5, :5].assign(image_name=[f"ISIC_T{i:06d}" for i in range(5)])
    test.to_csv(raw / "test.csv", index=False)
    test[["image_name"]].assign(target=0).to_csv(raw / "sample_submission.csv", index=False)
    for folder in ("train", "test", "jpeg/train", "jpeg/test", "tfrecords"):
        (raw / folder).mkdir(parents=True)
    for side, rows in (("train", train), ("test", test)):
        for name in rows.image_name:
            (raw / side / f"{name}.dcm").write_bytes(b"DICM" + name[-5:].encode() + rng.bytes(3))
            (raw / "jpeg" / side / f"{name}.jpg").write_bytes(b"\xff\xd8" + name[-5:].encode() + rng.bytes(3))
    # the order of the images in the record files differs from that in the table
    where = rng.integers(0, len(RECORD_FILES), n)
    order = rng.permutation(n)
    for k, stem in enumerate(RECORD_FILES):
        chosen = [i for i in order if where[i] == k]
        records = [{"image": b"\xff\xd8jpeg", "image_name": names[i], "target": int(target[i])} for i in chosen]
        if k == 0:  # a duplicate, and an image that is not in the table
            records += [records[0], {"image": b"\xff\xd8jpeg" * 40, "image_name": "ISIC_X000001", "target": 0}]
        (raw / "tfrecords" / f"{stem}.tfrec").write_bytes(tfrecord(records))
    records = [{"image": b"\xff\xd8", "image_name": name} for name in test.image_name]
    (raw / "tfrecords" / "test00-687.tfrec").write_bytes(tfrecord(records))


def submissions(public: Path, private: Path, rng: np.random.Generator) -> dict[str, Any]:
    answers = pd.read_csv(private / "test.csv")
    p = 0.3 * answers.target + 0.7 * rng.random(len(answers))
    noisy = answers.assign(target=p)
    return {
        **standard(
            noisy,
            "image_name",
            "ISIC_X",
            "target",
            "missing_column renamed_id nan_prediction text_prediction above_one",
        ),
        "ties": noisy.assign(target=p.round(1)),
        "hard": noisy.assign(target=(p > 0.5).astype(int)),
        "booleans": noisy.assign(target=p > 0.5),
        "inverted": noisy.assign(target=1 - p),
        "close_values": noisy.assign(target=0.5 + p * 1e-14),
        "column_order_and_extra": noisy.assign(sex="male")[["target", "sex", "image_name"]],
        "below_zero": noisy.assign(target=[-0.5, *p[1:]]),
    }
