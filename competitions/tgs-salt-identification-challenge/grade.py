from functools import partial

import numpy as np
import pandas as pd

from pytest_mlebench.data.rle import decode_rle
from pytest_mlebench.grading import alignment, parse_texts, require_columns
from pytest_mlebench.grading.metrics.segmentation import area, iou

SIDE = 101
WHOLE = np.array([[0, SIDE * SIDE]])
THRESHOLDS = np.arange(0.5, 1.0, 0.05)  # its rounding errors are part of the metric


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    require_columns(submission, ["id", "rle_mask"], exactly=True)
    predicted, truth = _masks(submission), _masks(answers)
    order = alignment(submission, answers, on="id")
    overlaps = np.array([_overlap(mask, predicted[k]) for mask, k in zip(truth, order, strict=True)])
    return float((overlaps[:, None] > THRESHOLDS).mean())


def _masks(table: pd.DataFrame) -> list[np.ndarray]:
    decode = partial(decode_rle, size=SIDE * SIDE)
    return parse_texts(table, "rle_mask", decode, expected="pairs of start and length", missing="")


def _overlap(truth: np.ndarray, predicted: np.ndarray) -> float:
    if area(truth) and not area(predicted):
        predicted = WHOLE  # the reference takes an empty prediction for a full one
    return iou(truth, predicted, empty=1.0)
