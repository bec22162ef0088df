from functools import partial

import numpy as np
import pandas as pd

from pytest_mlebench.authoring import alignment, parse_texts, require_columns
from pytest_mlebench.authoring.metrics.segmentation import area, iou
from pytest_mlebench.authoring.rle import Runs, decode_rle

SIDE = 101
WHOLE = np.array([[0, SIDE * SIDE]])
THRESHOLDS = np.arange(0.5, 1.0, 0.05)  # the rounding errors are part of the metric


def check(submission: pd.DataFrame, template: pd.DataFrame) -> list[Runs]:
    require_columns(submission, ["id", "rle_mask"], exactly=True)
    order = alignment(submission, template, on="id")
    masks = _masks(submission)
    return [masks[k] for k in order]


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> np.float64:
    pairs = zip(_masks(answers), check(submission, answers), strict=True)
    overlaps = np.array([_overlap(*pair) for pair in pairs])
    return np.float64((overlaps[:, None] > THRESHOLDS).mean())


def row_scores(submission: pd.DataFrame, answers: pd.DataFrame) -> np.ndarray:
    pairs = zip(_masks(answers), check(submission, answers), strict=True)
    overlaps = np.array([_overlap(*pair) for pair in pairs])
    return (overlaps[:, None] > THRESHOLDS).mean(axis=1)


def _masks(table: pd.DataFrame) -> list[Runs]:
    decode = partial(decode_rle, size=SIDE * SIDE)
    return parse_texts(table, "rle_mask", decode, expected="pairs of start and length", missing="")


def _overlap(truth: Runs, predicted: Runs) -> float:
    if area(truth) and not area(predicted):
        predicted = WHOLE  # the reference treats an empty prediction as a full one
    return iou(truth, predicted, empty=1.0)
