import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.synthetic import first_value, standard

# Number of specimens of each species: all sizes at which the split behaves differently, and more.
SIZES = [1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 7, 9, 10, 11, 12, 16]
REGIONS = ["unknown", "Neotropics", "Côte d'Ivoire", 'São "Tomé"']


def make(raw: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    numbers = [3, 99, 100, 1203, *rng.choice(np.arange(101, 32000), len(SIZES) - 4, replace=False)]
    species = [int(k) for k in rng.permutation(numbers)]
    labels = np.repeat(species, SIZES)
    labels = labels[rng.permutation(len(labels))].tolist()
    ids = rng.permutation(5000)[: len(labels)].tolist()
    train = raw / "nybg2020" / "train"
    images, annotations = [], []
    for label, id in zip(labels, ids, strict=True):
        name = f"images/{label // 100:03d}/{label % 100:02d}/{id}.jpg"
        height = int(rng.integers(600, 1001))
        images.append({"file_name": name, "height": height, "id": id, "license": 1, "width": 681})
        region = int(rng.integers(0, 4))
        annotations.append({"category_id": label, "id": id + 70000, "image_id": id, "region_id": region})
        _write(train / name, b"\xff\xd8" + rng.bytes(8) + b"\xff\xd9")
    categories = [
        {"family": "Asteracæ", "genus": f"Günthéria {k % 5}", "id": k, "name": f"species ×{k}"} for k in sorted(species)
    ]
    common = {
        "info": {
            "contributor": "garden",
            "date_created": "2020-01-01 00:00:00.5",
            "description": "sheets",
            "url": "",
            "version": "1.0",
            "year": 2020,
        },
        "licenses": [{"id": 1, "name": "CC", "url": "https://example.org"}],
    }
    metadata = {
        "annotations": annotations,
        "images": images,
        "categories": categories,
        **common,
        "regions": [{"id": k, "name": name} for k, name in enumerate(REGIONS)],
    }
    # Latin-1, which is not UTF-8
    (train / "metadata.json").write_text(json.dumps(metadata, ensure_ascii=False), encoding="latin-1")

    test = raw / "nybg2020" / "test"
    image = {"file_name": "images/000/0.jpg", "height": 1000, "id": "0", "license": 1, "width": 681}
    _write(test / "images/000/0.jpg", b"\xff\xd8\xff\xd9")
    (test / "metadata.json").write_text(json.dumps({"images": [image], **common}))
    (raw / "sample_submission.csv").write_text("Id,Predicted\n0,0\n")


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def submissions(public: Path, private: Path, rng: np.random.Generator) -> dict[str, Any]:
    answers = pd.read_csv(private / "answers.csv")
    truth = answers["Predicted"]
    n = len(answers)
    noisy = answers.assign(Predicted=np.where(rng.random(n) < 0.4, rng.choice(truth, n), truth))
    guess = noisy["Predicted"]

    foreign = np.where(np.arange(n) % 3 == 0, 32000 + np.arange(n), truth)
    return {
        **standard(noisy, "Id", 99999, "Predicted", "missing_column renamed_column nan_prediction infinite"),
        "one_class": answers.assign(Predicted=truth.mode()[0]),
        "labels_not_in_answers": answers.assign(Predicted=foreign),
        **first_value(noisy, "Predicted", negative_label=-5, one_text="Quercus"),
        "whole_floats": noisy.assign(Predicted=guess.astype(float)),
        "fractions": noisy.assign(Predicted=guess + 0.75),
        "columns_swapped": noisy[["Predicted", "Id"]],
        "extra_column": noisy.assign(score=0.5),
        "booleans": answers.assign(Predicted=truth > 1000),
        "several_labels": noisy.assign(Predicted=guess.astype(str) + " 3"),
        "text_id": noisy.assign(Id=["a", *noisy["Id"].iloc[1:]]),
    }
