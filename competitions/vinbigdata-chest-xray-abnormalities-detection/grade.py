import numpy as np
import pandas as pd

from pytest_mlebench.authoring import number_records, parse_texts, require_columns, require_same_ids
from pytest_mlebench.authoring.metrics.detection import coco_average_precision, coco_iou

from .columns import CORNERS

TRUE_CORNERS = [f"true_{corner}" for corner in CORNERS]
MAX_DETECTIONS = 100  # per class and image


def check(submission: pd.DataFrame, template: pd.DataFrame) -> list[np.ndarray]:
    require_columns(submission, ["image_id", "PredictionString"])
    require_same_ids(submission, template, on="image_id")
    expected = "class, confidence and corners of each box"
    return parse_texts(submission, "PredictionString", _boxes, expected=expected)


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> np.float64:
    """Return the mean average precision at an IoU of 0.4, as pycocotools computes it from the reference's input.

    An image has at most one true box of a class, so a match is the first box that overlaps it enough. Three defects
    of the reference remain: corners are read as x, y, width and height; the true box with the id 0 counts as not
    found; and the predicted box with the id 0 does not claim its true box.
    """
    rows = check(submission, answers)
    images = pd.Index(answers["image_id"].unique())

    boxes = pd.DataFrame(np.concatenate(rows), columns=["class_id", "confidence", *CORNERS])
    boxes["id"] = np.arange(len(boxes))
    boxes["image"] = np.repeat(images.get_indexer(submission["image_id"]), [len(row) for row in rows])
    boxes = boxes[boxes["class_id"].isin(answers["class_id"])]  # other classes do not count
    boxes = boxes.sort_values("image", kind="stable").sort_values("confidence", ascending=False, kind="stable")
    boxes = boxes[boxes.groupby(["class_id", "image"]).cumcount() < MAX_DETECTIONS]

    truth = answers.assign(true_id=np.arange(len(answers)), image=images.get_indexer(answers["image_id"]))
    truth = truth[["image", "class_id", "true_id", *CORNERS]].astype(float)
    truth = truth.rename(columns=dict(zip(CORNERS, TRUE_CORNERS, strict=True)))
    boxes = boxes.merge(truth, on=["image", "class_id"], how="left")
    overlaps = coco_iou(boxes[CORNERS], boxes[TRUE_CORNERS])
    overlapping = boxes["true_id"].notna() & ~(overlaps < 0.4)
    taking = overlapping & (boxes["id"] != 0)
    taken_before = taking.groupby([boxes["class_id"], boxes["image"]]).cumsum() - taking
    boxes["hit"] = overlapping & (taken_before == 0) & (boxes["true_id"] != 0)
    area = (boxes["x_max"] - boxes["x_min"]) * (boxes["y_max"] - boxes["y_min"])
    hits = boxes[boxes["hit"] | ~((area < 0) | (area > 1e10))].groupby("class_id")["hit"].agg(list)
    positives = truth["class_id"].value_counts()
    return np.float64(
        np.mean([coco_average_precision(hits.get(label, []), count) for label, count in positives.items()])
    )


def _boxes(text: str) -> np.ndarray:
    boxes = number_records(text, 6, separator=" ")
    boxes[:, 0] = np.trunc(boxes[:, 0])
    if not np.isfinite(boxes[:, 0]).all():
        raise ValueError("a class is not a number")
    return boxes
