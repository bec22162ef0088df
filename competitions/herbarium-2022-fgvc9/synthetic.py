import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.synthetic import standard

CATEGORIES = [0, 3, 42, 99, 100, 155, 1234, 9999, 15504, 777]
FAMILIES = ["Asteraceae", "Poaceae", "Fabaceae"]


def make(raw: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    categories = [*CATEGORIES, 2000 + seed]
    images, annotations = [], []
    for category in categories:
        n = int(rng.choice([7, 8, 9, 10, 11, 15, 16]))
        folder = f"{category // 100:03d}/{category % 100:02d}"
        for k in rng.permutation(np.arange(1, n + 4))[:n]:  # numbering with gaps
            id = f"{category:05d}__{k:03d}"
            name = f"{folder}/{id}.jpg"
            images.append({"image_id": id, "file_name": name, "license": int(rng.integers(0, 5))})
            institution = int(rng.integers(0, 60))
            annotations.append(
                {"genus_id": category % 7, "institution_id": institution, "category_id": category, "image_id": id}
            )
            _write(raw / "train_images" / name, b"\xff\xd8" + id.encode() + rng.bytes(3))
    order = np.arange(len(images))
    order[20:50] = 20 + rng.permutation(30)  # not all species are in one run
    metadata = {
        "annotations": [annotations[k] for k in order],
        "images": [images[k] for k in order],
        "categories": [
            {
                "category_id": category,
                "scientificName": f"Abies n° {category}",
                "family": FAMILIES[category % 3],
                "genus": "Abies",
                "species": f"sp{category}",
                "authors": '(Née) "Müll." Arg.',
            }
            for category in categories
        ],
        "genera": [{"genus_id": k, "genus": f"Genus{k}"} for k in range(7)],
        "institutions": [{"institution_id": k, "collectionCode": code} for k, code in enumerate(["NY", "", None])],
        "distances": [{"genus_id_x": 0, "genus_id_y": k, "distance": float(rng.random() * 300)} for k in range(1, 7)],
        "licenses": [{"id": 0, "name": "CC BY 4.0", "url": "https://creativecommons.org/licenses/by/4.0/"}],
    }
    (raw / "train_metadata.json").write_text(json.dumps(metadata))
    test = [{"image_id": str(k), "file_name": f"000/test-{k:06d}.jpg", "license": 0} for k in range(3)]
    (raw / "test_metadata.json").write_text(json.dumps(test))
    for image in test:
        _write(raw / "test_images" / str(image["file_name"]), b"\xff\xd8")
    pd.DataFrame({"Id": range(3), "Predicted": 42}).to_csv(raw / "sample_submission.csv", index=False)


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def submissions(public: Path, private: Path, rng: np.random.Generator) -> dict[str, Any]:
    answers = pd.read_csv(private / "answers.csv")
    truth = answers["Predicted"]
    n = len(answers)
    guess = np.where(rng.random(n) < 0.6, truth, rng.choice(CATEGORIES, n))
    noisy = answers.assign(Predicted=guess)

    foreign = np.where(guess == 42, 43, np.where(guess == 3, -1, guess))
    return {
        **standard(
            noisy, "Id", 9999, "Predicted", "missing_column renamed_column nan_prediction text_prediction infinite"
        ),
        "one_class": noisy.assign(Predicted=100),
        "classes_never_seen": noisy.assign(Predicted=foreign),
        "as_float": noisy.assign(Predicted=guess.astype(float)),
        "fractions": noisy.assign(Predicted=guess + 0.99),
        "float_ids": noisy.assign(Id=noisy["Id"].astype(float)),
        "column_order_and_extra": noisy.assign(x=1)[["Predicted", "x", "Id"]],
    }
