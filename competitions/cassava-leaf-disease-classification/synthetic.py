import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.synthetic import first_value, standard
from pytest_mlebench.authoring.tfrecord import tfrecord

DISEASES = {
    "0": "Cassava Bacterial Blight (CBB)",
    "1": "Cassava Brown Streak Disease (CBSD)",
    "2": "Cassava Green Mottle (CGM)",
    "3": "Cassava Mosaic Disease (CMD)",
    "4": "Healthy",
}
FILES, PER_FILE = 16, 11


def make(raw: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = FILES * PER_FILE - 3  # the last file is shorter
    numbers = np.sort(rng.choice(np.arange(6_000_000, 4_294_967_295, 1009), n, replace=False))
    names = [f"{k}.jpg" for k in rng.permutation(numbers)]
    labels = rng.choice(5, n, p=[0.06, 0.12, 0.13, 0.57, 0.12])
    images = [b"\xff\xd8\xff" + rng.bytes(int(rng.integers(5, 20))) for _ in names]
    for folder in ("train_images", "train_tfrecords", "test_images", "test_tfrecords"):
        (raw / folder).mkdir()
    for name, image in [*zip(names, images, strict=True), ("7.jpg", b"\xff\xd8")]:  # the last is in no table
        (raw / "train_images" / name).write_bytes(image)
    examples = [
        {"image": image, "image_name": name, "target": int(label)}
        for image, name, label in zip(images, names, labels, strict=True)
    ]
    for k in range(FILES):
        part = examples[k * PER_FILE : (k + 1) * PER_FILE]
        (raw / "train_tfrecords" / f"ld_train{k:02d}-{len(part)}.tfrec").write_bytes(tfrecord(part))
    (raw / "train_tfrecords" / "readme.txt").write_text("not a record\n")
    order = rng.permutation(n)
    table = pd.DataFrame({"image_id": np.array(names)[order], "label": labels[order]})
    table.to_csv(raw / "train.csv", index=False)
    (raw / "label_num_to_disease_map.json").write_text(json.dumps(DISEASES))

    test = {"image": b"\xff\xd8\xff\x00", "image_name": "2216849948.jpg"}
    (raw / "test_images" / "2216849948.jpg").write_bytes(b"\xff\xd8\xff\x00")
    (raw / "test_tfrecords" / "ld_test00-1.tfrec").write_bytes(tfrecord([test]))
    pd.DataFrame({"image_id": [test["image_name"]], "label": 4}).to_csv(raw / "sample_submission.csv", index=False)


def submissions(public: Path, private: Path, rng: np.random.Generator) -> dict[str, Any]:
    answers = pd.read_csv(private / "test.csv")
    n = len(answers)
    noisy = answers.assign(label=np.where(rng.random(n) < 0.35, rng.integers(0, 5, n), answers["label"]))
    guess = noisy["label"]
    return {
        "all_mosaic": noisy.assign(label=3),
        "as_floats": noisy.assign(label=guess.astype(float)),
        "no_such_class": noisy.assign(label=[99, -1, *guess.iloc[2:]]),
        "columns_swapped_with_extra": noisy.assign(p=0.5)[["p", "label", "image_id"]],
        "booleans": noisy.assign(label=guess > 2),
        "halves": noisy.assign(label=guess + 0.5),
        "names_of_diseases": noisy.assign(label=guess.astype(str).map(DISEASES)),
        **first_value(noisy, "label", one_text="healthy", one_empty=None),
        "all_empty": noisy.assign(label=None),
        "without_suffix": noisy.assign(image_id=noisy["image_id"].str.removesuffix(".jpg")),
        **standard(noisy, "image_id", "1.jpg", "label", "missing_column renamed_id"),
    }
