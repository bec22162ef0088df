import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.archives import write_tar_gz
from pytest_mlebench.authoring.synthetic import first_value, standard

KINGDOMS = ["Plants", "Birds", "Fungi", "Reptiles"]
# Number of images of each category: all sizes at which the split behaves differently, and more.
SIZES = [1, 1, 2, 3, 4, 4, 5, 6, 8, 9, 12, 16, 17, 20, 25]


def make(raw: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    numbers = [0, 654, 1009, *rng.choice(np.arange(1, 650), len(SIZES) - 3, replace=False)]
    numbers = [int(k) for k in rng.permutation(numbers)]
    files: dict[str, bytes] = {}
    labels = np.repeat(numbers, SIZES)
    train = _images(labels[rng.permutation(len(labels))].tolist(), files, rng)
    val = _images(rng.choice(numbers, 6).tolist(), files, rng)
    info = {
        "contributor": "iNat",
        "date_created": "2019-01-01",
        "description": "tiny",
        "url": "",
        "version": 1.0,
        "year": 2019,
    }
    licenses = [{"id": 3, "name": "CC", "url": "https://example.org"}]
    ranks = {"kingdom": "Plantae", "phylum": "", "class": "", "order": "", "family": "", "genus": "Genus"}
    categories = [{"id": k, "name": f"Genus spécies{k}", **ranks} for k in sorted(numbers)]
    for name, (images, annotations) in (("train2019.json", train), ("val2019.json", val)):
        content = {
            "info": info,
            "images": images,
            "licenses": licenses,
            "annotations": annotations,
            "categories": categories,
        }
        _write_json(raw / name, content)
    test_image = {
        "id": 268243,
        "width": 800,
        "height": 600,
        "file_name": "test2019/0.jpg",
        "license": 3,
        "rights_holder": "",
    }
    _write_json(raw / "test2019.json", {"info": info, "images": [test_image], "licenses": licenses})
    write_tar_gz(raw / "train_val2019.tar.gz", sorted(files.items()))
    write_tar_gz(raw / "test2019.tar.gz", {"test2019/0.jpg": b"\xff\xd8\xff\xd9"})
    (raw / "kaggle_sample_submission.csv").write_text("id,predicted\n268243,71 108 339 341 560\n")


def _images(
    labels: list[int], files: dict[str, bytes], rng: np.random.Generator
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return images and annotations, numbered after the existing files; adds the images to ``files``."""
    images, annotations = [], []
    for id, label in enumerate(labels, start=len(files)):
        name = f"train_val2019/{KINGDOMS[label % 4]}/{label}/{rng.bytes(16).hex()}.jpg"
        files[name] = b"\xff\xd8" + rng.bytes(8) + b"\xff\xd9"
        image = {
            "id": id,
            "width": 800,
            "height": int(rng.integers(400, 801)),
            "file_name": name,
            "license": 3,
            "rights_holder": str(rng.choice(["Zoë", 'a "b"', "李", "c, d"])),
        }
        images.append(image)
        annotations.append({"id": id, "image_id": id, "category_id": label})
    return images, annotations


def _write_json(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")


def submissions(public: Path, private: Path, rng: np.random.Generator) -> dict[str, Any]:
    answers = pd.read_csv(private / "answers.csv")
    truth = answers["predicted"]
    n = len(truth)
    noisy = answers.assign(predicted=np.where(rng.random(n) < 0.4, rng.choice(truth, n), truth))
    guess = noisy["predicted"]
    five = noisy.assign(predicted=[" ".join(map(str, [label, *rng.permutation(truth)[:4]])) for label in guess])

    some_with_more = [f" {label}  1 2" if k % 2 else str(label) for k, label in enumerate(guess)]
    return {
        **standard(noisy, "id", 99999, "predicted", "missing_column renamed_column"),
        "five_labels": five,
        "five_labels_shuffled": five.sample(frac=1, random_state=0),
        "truth_second": answers.assign(predicted="5000 " + truth.astype(str)),
        "some_with_more": noisy.assign(predicted=some_with_more),
        "unseen_labels": answers.assign(predicted=-1),
        "columns_swapped": five[["predicted", "id"]],
        "extra_column": noisy.assign(score=0.5),
        "booleans": answers.assign(predicted=truth > 500),
        "whole_floats": noisy.assign(predicted=guess.astype(float)),
        "floats_in_lists": noisy.assign(predicted=guess.map("{}.0 1".format)),
        "commas": noisy.assign(predicted=guess.map("{},1".format)),
        **first_value(noisy, "predicted", one_empty=None, one_text="daisy"),
        **first_value(five, "predicted", one_empty_of_lists=None),
    }
