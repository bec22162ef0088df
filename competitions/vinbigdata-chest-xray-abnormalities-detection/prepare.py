from pathlib import Path

import pandas as pd

from pytest_mlebench.authoring.files import link_files
from pytest_mlebench.authoring.tables import hold_out, read_csv, split, write_csv

from .columns import CORNERS

NO_FINDING = 14


def prepare(raw: Path, public: Path, private: Path) -> None:
    train, test, test_images = choose(raw)
    write_sides(train, first_boxes(test), test_images, raw, public, private)


def choose(raw: Path) -> tuple[pd.DataFrame, pd.DataFrame, list[str]]:
    """Return the training boxes, the test boxes, and the test images in order."""
    boxes = read_csv(raw / "train.csv")
    _, test_images = split(boxes["image_id"].unique().tolist(), test_size=0.1)
    return *hold_out(boxes, "image_id", test_images), test_images


def first_boxes(findings: pd.DataFrame) -> pd.DataFrame:
    """Return the first box of each class in each image."""
    return findings.groupby(["image_id", "class_id"], as_index=False).first()


def write_sides(
    train: pd.DataFrame, true_boxes: pd.DataFrame, test_images: list[str], raw: Path, public: Path, private: Path
) -> None:
    write_csv(train, public / "train.csv")
    answers = true_boxes.fillna(0)
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
    for images, side in ((train["image_id"].unique(), "train"), (test_images, "test")):
        link_files((f"{image}.dicom" for image in images), raw / "train", public / side)
