from pathlib import Path

import numpy as np
import pandas as pd
from scipy.sparse.csgraph import connected_components

from pytest_mlebench.authoring.metrics.detection import box_iou

from .. import prepare as first
from ..columns import CORNERS

SAME_FINDING = 0.4
"""Intersection over union above which two boxes of a class in an image belong to one finding."""


def prepare(raw: Path, public: Path, private: Path) -> None:
    train, test, test_images = first.choose(raw)
    first.write_sides(train, distinct_findings(test), test_images, raw, public, private)


def distinct_findings(boxes: pd.DataFrame) -> pd.DataFrame:
    """Return the mean of the radiologists' boxes of each finding, and "no finding" for images without one."""
    is_finding = boxes["class_id"] != first.NO_FINDING
    sick = boxes.loc[is_finding, "image_id"].unique()
    healthy = first.first_boxes(boxes[~is_finding & ~boxes["image_id"].isin(sick)])
    found = boxes[is_finding].sort_values(["image_id", "class_id"], kind="stable")
    number = np.concatenate(
        [np.empty(0, dtype=int), *(_numbers(group) for _, group in found.groupby(["image_id", "class_id"]))]
    )
    by_finding = found.assign(finding=number).groupby(["image_id", "class_id", "finding"], as_index=False)
    merged = by_finding.agg({"class_name": "first", "rad_id": "first", **dict.fromkeys(CORNERS, "mean")})
    return pd.concat([merged, healthy]).sort_values(["image_id", "class_id"], kind="stable")


def _numbers(group: pd.DataFrame) -> np.ndarray:
    """Return the number of each box's finding."""
    overlaps = box_iou(group[CORNERS], group[CORNERS]) > SAME_FINDING
    return np.asarray(connected_components(overlaps, directed=False)[1])
