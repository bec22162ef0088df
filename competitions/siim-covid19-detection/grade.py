import math
from collections.abc import Collection, Iterable
from functools import partial

import numpy as np
import pandas as pd
from sklearn.metrics import average_precision_score

from pytest_mlebench.grading import alignment, labelled_records, parse_texts, require_columns
from pytest_mlebench.grading.metrics.detection import box_iou, greedy_match

LABELS = ("negative", "typical", "indeterminate", "atypical", "none", "opacity")

Boxes = dict[str, list[tuple[float, list[float]]]]
"""Confidence and corners of the boxes in a row, by class."""


def check(submission: pd.DataFrame, template: pd.DataFrame) -> None:
    _read(submission, template, LABELS)


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> np.float64:
    truth = [_boxes(text) for text in answers["PredictionString"]]
    labels = sorted({label for row in truth for label in row})
    predicted = _read(submission, answers, labels)
    return np.float64(np.mean([_average_precision(truth, predicted, label) for label in labels]))


def _read(submission: pd.DataFrame, template: pd.DataFrame, labels: Collection[str]) -> list[Boxes]:
    require_columns(submission, ["id", "PredictionString"])
    parse = partial(_boxes, labels=labels)
    boxes = parse_texts(submission, "PredictionString", parse, expected="class, confidence and corners of each box")
    return [boxes[k] for k in alignment(submission, template, on="id")]


def _boxes(text: str, labels: Collection[str] = ()) -> Boxes:
    boxes: Boxes = {}
    for label, (confidence, *corners) in labelled_records(text, 6):
        if label in labels and not math.isfinite(confidence):
            raise ValueError(f"the confidence {confidence} of {label!r} is not finite")
        boxes.setdefault(label, []).append((confidence, corners))
    return boxes


def _average_precision(truth: Iterable[Boxes], predicted: Iterable[Boxes], label: str) -> float:
    """Average precision of a class, in which missed boxes, and rows without the class, have the score 0."""
    hits: list[bool] = []
    scores: list[float] = []
    missed = absent = 0
    for true_boxes, predicted_boxes in zip(truth, predicted, strict=True):
        objects = [corners for _, corners in true_boxes.get(label, ())]
        found = sorted(predicted_boxes.get(label, ()), key=lambda box: -box[0])
        if objects and found:
            matched = (greedy_match(box_iou([corners for _, corners in found], objects), 0.5) >= 0).tolist()
        else:
            matched = [False] * len(found)
            absent += not objects and not found
        missed += len(objects) - sum(matched)
        hits += matched
        scores += [confidence for confidence, _ in found]
    return average_precision_score(hits + [True] * missed + [False] * absent, scores + [0.0] * (missed + absent))
