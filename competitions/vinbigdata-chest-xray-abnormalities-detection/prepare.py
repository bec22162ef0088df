from collections.abc import Callable
from pathlib import Path

import pandas as pd

from pytest_mlebench.data.authoring.files import link_files
from pytest_mlebench.data.authoring.tables import hold_out, read_csv, split, write_csv

from .columns import CORNERS

NO_FINDING = 14


def first_boxes(findings: pd.DataFrame) -> pd.DataFrame:
    """Of each class in an image the box that was drawn first."""
    return findings.groupby(["image_id", "class_id"], as_index=False).first()


def prepare(
    raw: Path, public: Path, private: Path, *, true_boxes: Callable[[pd.DataFrame], pd.DataFrame] = first_boxes
) -> None:
    boxes = read_csv(raw / "train.csv")
    train_images, test_images = split(boxes["image_id"].unique().tolist(), test_size=0.1)
    train, test = hold_out(boxes, "image_id", test_images)
    write_csv(train, public / "train.csv")
    answers = true_boxes(test).fillna(0)
    answers.loc[answers["class_id"] == NO_FINDING, ["x_max", "y_max"]] = 1.0
    answers = answers[["image_id", "class_id", "class_name", "rad_id", *CORNERS]]
    write_csv(answers, private / "answers.csv")
    texts = answers["class_id"].astype(str) + " 1.0"
    for corner in CORNERS:
        texts += " " + answers[corner].map(repr)
    gold = texts.groupby(answers["image_id"]).agg(" ".join).rename("PredictionString")
    write_csv(gold.reset_index(), private / "gold_submission.csv")
    sample = gold.loc[test_images].reset_index().assign(PredictionString="14 1 0 0 1 1")
    write_csv(sample, public / "sample_submission.csv")
    for images, side in ((train_images, "train"), (test_images, "test")):
        link_files((f"{image}.dicom" for image in images), raw / "train", public / side)
