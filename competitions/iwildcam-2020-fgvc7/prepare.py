import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pytest_mlebench.data.authoring.files import link, link_files
from pytest_mlebench.data.authoring.tables import hold_out, split, write_csv

TRAIN = "iwildcam2020_train_annotations.json"
TEST = "iwildcam2020_test_information.json"
DETECTIONS = "iwildcam2020_megadetector_results.json"
TEST_SIZE = 0.22


def prepare(raw: Path, public: Path, private: Path, *, corrected: bool = False) -> None:
    """``corrected``: the share of test images is what it says, and each of them has one annotation."""
    metadata, test_metadata = (json.loads((raw / name).read_text(encoding="utf-8")) for name in (TRAIN, TEST))
    # By way of tables: a key that some record lacks becomes NaN there, as in the reference's files.
    images, annotations = pd.DataFrame(metadata["images"]), pd.DataFrame(metadata["annotations"])
    train, test = hold_out(images, "location", _test_locations(images["location"], counted_twice=not corrected))

    train_annotations, truth = hold_out(annotations, "image_id", test["id"])
    if corrected:
        truth = truth.drop_duplicates("image_id")
        test = test[test["id"].isin(truth["image_id"])]
    content = {
        "annotations": _records(train_annotations),
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


def _test_locations(locations: pd.Series, *, counted_twice: bool) -> list[Any]:
    """Cameras of the test set: a random share, then one by one until it holds just under the share of images.

    That share can count the images held out twice in its denominator, as the reference does.
    """
    images = locations.value_counts()
    train, test = map(list, split(locations.unique(), test_size=TEST_SIZE))

    def share() -> float:
        held_out = images[test].sum()
        return held_out / (len(locations) + (held_out if counted_twice else 0))

    while share() < TEST_SIZE:
        test.append(train.pop())
    while share() > TEST_SIZE:
        train.append(test.pop())
    return test


def _records(table: pd.DataFrame) -> list[dict[str, Any]]:
    return table.to_dict(orient="records")
