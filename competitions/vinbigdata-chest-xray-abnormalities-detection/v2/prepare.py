from functools import partial

import numpy as np
import pandas as pd
from scipy.sparse.csgraph import connected_components

from pytest_mlebench.grading.metrics.detection import box_iou

from .v1 import prepare as first
from .v1.columns import CORNERS

SAME_FINDING = 0.4
"""Intersection over union above which boxes of a class in an image are of one finding."""


def distinct_findings(boxes: pd.DataFrame) -> pd.DataFrame:
    """One box for each finding: the mean of those that radiologists drew; "no finding" only where there is none."""
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
    """The number of each box's finding."""
    overlaps = box_iou(group[CORNERS], group[CORNERS]) > SAME_FINDING
    return np.asarray(connected_components(overlaps, directed=False)[1])


prepare = partial(first.prepare, true_boxes=distinct_findings)
