import json
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.synthetic import first_value, standard

from .prepare import DETECTIONS, TEST, TRAIN

ANIMALS = {
    0: "empty",
    2: "tayassu pecari",
    3: "dasyprocta punctata",
    4: "cuniculus paca",
    10: "puma concolor",
    71: "tapirus terrestris",
    317: "mazama américana",
    675: "meleagris ocellata",
}


def make(raw: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    locations = rng.choice(np.arange(1, 560), 48, replace=False)
    images, test = _images(locations[:42], rng), _images(locations[42:], rng)
    categories = [{"count": int(rng.integers(0, 999)), "id": id, "name": name} for id, name in ANIMALS.items()]
    annotations = _annotations(images, rng)
    del annotations[5]["count"]  # keys that one record lacks
    del images[9]["datetime"]
    info = {
        "version": "1.0",
        "year": 2020,
        "description": "cameras",
        "contributor": "s",
        "date_created": "2020-01-01 00:00:00",
        "ratio": 0.1,
    }
    train_content = {"annotations": annotations, "images": images, "categories": categories, "info": info}
    (raw / TRAIN).write_text(json.dumps(train_content))
    test_content = {
        "images": test,
        "categories": [*categories, {"count": 0, "id": 676, "name": "start"}],
        "info": {**info, "description": "test"},
    }
    (raw / TEST).write_text(json.dumps(test_content))
    detections = {
        "images": [
            {"detections": _boxes(rng), "id": image["id"], "max_detection_conf": 0.5} for image in (images + test)[::4]
        ],
        "detection_categories": {"1": "animal", "2": "person"},
        "info": {"detector": "md"},
    }
    (raw / DETECTIONS).write_text(json.dumps(detections))
    for folder, group in (("train", images), ("test", test)):
        (raw / folder).mkdir()
        for image in group:
            (raw / folder / image["file_name"]).write_bytes(b"\xff\xd8" + rng.bytes(8) + b"\xff\xd9")
    pd.DataFrame({"Id": [image["id"] for image in test], "Category": 0}).to_csv(
        raw / "sample_submission.csv", index=False
    )


def _images(locations: Iterable[int], rng: np.random.Generator) -> list[dict[str, Any]]:
    images = []
    for location in locations:
        for _ in range(rng.integers(1, 4)):
            frames, sequence = int(rng.integers(1, 4)), _uuid(rng)
            for frame in range(1, frames + 1):
                id = _uuid(rng)
                image = {
                    "seq_num_frames": frames,
                    "location": int(location),
                    "datetime": f"2013-0{rng.integers(1, 10)}-12 14:49:0{frame}.000",
                    "id": id,
                    "frame_num": frame,
                    "seq_id": sequence,
                    "width": 1920,
                    "height": 1080,
                    "file_name": f"{id}.jpg",
                }
                images.append(image)
    return [images[k] for k in rng.permutation(len(images))]


def _annotations(images: list[dict[str, Any]], rng: np.random.Generator) -> list[dict[str, Any]]:
    ids = list(ANIMALS)
    annotations = []
    for k, image in enumerate(images):
        common = ids[image["location"] % 7 + 1]
        if k % 41 == 7:
            continue  # an image without an annotation
        categories = [int(rng.choice([0, common, rng.choice(ids)]))]
        if k % 19 == 3:  # several annotations of one image
            categories.append(categories[0] if k % 2 else 71)
        for category in categories:
            count = int(rng.integers(1, 4))
            annotations.append({"count": count, "image_id": image["id"], "id": _uuid(rng), "category_id": category})
    return [annotations[k] for k in rng.permutation(len(annotations))]


def _boxes(rng: np.random.Generator) -> list[dict[str, Any]]:
    box = [float(v) for v in rng.random(4).round(4)]
    return [{"category": "1", "bbox": box, "conf": round(float(rng.random()), 3)}] * int(rng.integers(0, 2))


def _uuid(rng: np.random.Generator) -> str:
    return str(uuid.UUID(bytes=rng.bytes(16)))


def submissions(public: Path, private: Path, rng: np.random.Generator) -> dict[str, Any]:
    answers = pd.read_csv(private / "answers.csv")
    # One prediction for each image, even if the answers have several rows for it.
    truth = answers.groupby("Id")["Category"].first()
    guesses = {
        id: (category if rng.random() < 0.6 else int(rng.choice([0, 2, 3, 71, 675]))) for id, category in truth.items()
    }
    noisy = answers.assign(Category=answers["Id"].map(guesses))
    guess = noisy["Category"]

    def first(value: Any) -> pd.DataFrame:
        return noisy.assign(Category=[value, *guess.iloc[1:]])

    unseen = -1 - answers["Id"].map({id: k for k, id in enumerate(truth.index)})
    return {
        **standard(noisy, "Id", "zzz", "Category", "missing_column renamed_column all_text nan_prediction"),
        "all_empty": answers.assign(Category=0),
        "unseen_categories": answers.assign(Category=unseen),
        "whole_floats": noisy.assign(Category=guess.astype(float)),
        "columns_swapped": noisy[["Category", "Id"]],
        "extra_column": noisy.assign(Predicted=3),
        "fractions": noisy.assign(Category=guess + 0.5),
        **first_value(noisy, "Category", one_text="puma concolor"),
        "one_row_for_each_image": noisy.drop_duplicates("Id"),
        "empty_id": noisy.assign(Id=[None, *noisy["Id"].iloc[1:]]),
        "with_file_ending": noisy.assign(Id=noisy["Id"] + ".jpg"),
    }
