import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.synthetic import standard

# Number of specimens of each species: all sizes at which the split behaves differently.
SIZES = [1, 2, 3, 4, 5, 6, 9, 10, 11, 12, 1, 2, 4, 5, 7, 16, 3, 8]
FAMILIES = ["Poaceae", "Asteraceae", "Orchidacées"]


def make(raw: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    ids = [0, 7, 64499, *(int(k) for k in rng.choice(range(100, 64000), len(SIZES) - 3, replace=False))]
    rng.shuffle(ids)
    labels = rng.permutation(np.repeat(ids, SIZES)).tolist()
    image_ids = rng.choice(range(1, 2_600_000), len(labels), replace=False).tolist()
    images, annotations = [], []
    for label, id in zip(labels, image_ids, strict=True):
        name = f"images/{label // 100:03d}/{label % 100:02d}/{id}.jpg"
        width, license = int(rng.integers(600, 1001)), int(rng.integers(1, 3))
        images.append({"id": id, "width": width, "height": 1000, "file_name": name, "license": license})
        institution = int(rng.integers(0, 5))
        annotations.append({"id": id * 2 + 1, "image_id": id, "category_id": label, "institution_id": institution})
        _write_image(raw / "train" / name, rng)
    common = {
        "info": {
            "year": 2021,
            "version": "1.0",
            "url": "https://example.org",
            "description": "Tiny “herbarium”",
            "contributor": "nobody",
            "date_created": "2021-02-27",
        },
        "licenses": [{"id": k, "name": f"licence {k}", "url": "https://example.org/l"} for k in (1, 2)],
    }
    categories = [
        {"id": k, "name": f"Planta nº {k}", "family": str(rng.choice(FAMILIES)), "order": "Poales"} for k in sorted(ids)
    ]
    without_image = {"id": 64500, "name": "Sine imagine", "family": FAMILIES[0], "order": "Poales"}
    metadata = {
        "annotations": annotations,
        "images": images,
        "categories": [*categories, without_image],
        "institutions": [{"id": k, "name": f"Garden {k}"} for k in range(5)],
        **common,
    }
    (raw / "train" / "metadata.json").write_text(json.dumps(metadata))

    test = [
        {"id": str(k), "width": 1000, "height": 700, "file_name": f"images/000/{k}.jpg", "license": 1} for k in range(3)
    ]
    for image in test:
        _write_image(raw / "test" / str(image["file_name"]), rng)
    (raw / "test" / "metadata.json").write_text(json.dumps({"images": test, **common}))
    pd.DataFrame({"Id": range(3), "Predicted": 0}).to_csv(raw / "sample_submission.csv", index=False)


def _write_image(path: Path, rng: np.random.Generator) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\xff\xd8\xff" + rng.bytes(5))


def submissions(public: Path, private: Path, rng: np.random.Generator) -> dict[str, Any]:
    answers = pd.read_csv(private / "answers.csv")
    truth = answers["Predicted"]
    some = rng.random(len(answers)) < 0.35
    noisy = answers.assign(Predicted=np.where(some, rng.permutation(truth), truth))
    guess = noisy["Predicted"]
    return {
        "permuted": answers.assign(Predicted=rng.permutation(truth)),
        "most_frequent": answers.assign(Predicted=truth.mode()[0]),
        "classes_that_do_not_occur": answers.assign(Predicted=np.where(some, 10**6 + answers["Id"], truth)),
        "fractions": noisy.assign(Predicted=guess + 0.9),
        "negative_fractions": answers.assign(Predicted=truth - 0.3),
        "columns_swapped_and_extra": noisy.assign(w=0)[["w", "Predicted", "Id"]],
        "ids_as_floats": noisy.assign(Id=noisy["Id"].astype(float)),
        "duplicate_for_missing": pd.concat([noisy.iloc[1:], noisy.tail(1)]),
        "file_names_as_ids": noisy.assign(Id=noisy["Id"].astype(str) + ".jpg"),
        "missing_id_column": noisy[["Predicted"]],
        "lower_case_columns": noisy.rename(columns=str.lower),
        "species_names": noisy.assign(Predicted="Planta " + guess.astype(str)),
        "one_text": noisy.assign(Predicted=["x", *guess.iloc[1:]]),
        **standard(noisy, "Id", 10**7, "Predicted", "missing_column nan_prediction", without="duplicate_id"),
    }
