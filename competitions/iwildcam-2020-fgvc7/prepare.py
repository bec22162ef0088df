import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.files import link, link_files
from pytest_mlebench.authoring.tables import hold_out, split, write_csv

TRAIN = "iwildcam2020_train_annotations.json"
TEST = "iwildcam2020_test_information.json"
DETECTIONS = "iwildcam2020_megadetector_results.json"
TEST_SIZE = 0.22


def prepare(raw: Path, public: Path, private: Path) -> None:
    images, annotations = read_tables(raw)
    # The reference counts the held-out images twice in the denominator.
    locations = test_locations(images["location"], lambda held_out, total: held_out / (total + held_out))
    train, test = hold_out(images, "location", locations)
    write_sides(train, test, *hold_out(annotations, "image_id", test["id"]), raw, public, private)


def read_tables(raw: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the images and annotations. A key that a record lacks becomes NaN, as in the reference's files."""
    metadata = _load(raw, TRAIN)
    return pd.DataFrame(metadata["images"]), pd.DataFrame(metadata["annotations"])


def write_sides(
    train: pd.DataFrame,
    test: pd.DataFrame,
    annotations: pd.DataFrame,
    truth: pd.DataFrame,
    raw: Path,
    public: Path,
    private: Path,
) -> None:
    """Write the data; ``annotations`` are those of the training images, ``truth`` those of the test images."""
    metadata, test_metadata = _load(raw, TRAIN), _load(raw, TEST)
    content = {
        "annotations": _records(annotations),
        "images": _records(train),
        "categories": _records(pd.DataFrame(metadata["categories"])),
        "info": metadata["info"],
    }
    (public / TRAIN).write_text(json.dumps(content))
    content = {
        "images": _records(test),
        "categories": _records(pd.DataFrame(test_metadata["categories"])),
        "info": test_metadata["info"],
    }
    (public / TEST).write_text(json.dumps(content))
    link(raw / DETECTIONS, public / DETECTIONS)
    link_files(train["id"] + ".jpg", raw / "train", public / "train")
    link_files(test["id"] + ".jpg", raw / "train", public / "test")

    answers = truth[["image_id", "category_id"]].set_axis(["Id", "Category"], axis=1)
    write_csv(answers, private / "answers.csv")
    random_categories = np.random.RandomState(0).randint(0, 676, size=len(answers))
    write_csv(answers.assign(Category=random_categories), public / "sample_submission.csv")


def test_locations(locations: pd.Series, share_of: Callable[[int, int], float]) -> list[Any]:
    """Return the cameras of the test set: a random share, adjusted one by one to just under the share of images.

    ``share_of`` computes that share from the numbers of held-out images and of all images.
    """
    images = locations.value_counts()
    train, test = map(list, split(locations.unique(), test_size=TEST_SIZE))

    def share() -> float:
        return share_of(images[test].sum(), len(locations))

    while share() < TEST_SIZE:
        test.append(train.pop())
    while share() > TEST_SIZE:
        train.append(test.pop())
    return test


def _load(raw: Path, name: str) -> dict[str, Any]:
    return json.loads((raw / name).read_text(encoding="utf-8"))


def _records(table: pd.DataFrame) -> list[dict[str, Any]]:
    return table.to_dict(orient="records")
