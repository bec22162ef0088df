import math
from collections.abc import Collection, Iterable
from functools import partial
from typing import NamedTuple

import numpy as np
import pandas as pd
from sklearn.metrics import average_precision_score

from pytest_mlebench.grading import alignment, parse_texts, require_columns, split_records, to_floats
from pytest_mlebench.grading.metrics.detection import box_iou, greedy_match


class Box(NamedTuple):
    label: str
    confidence: float
    corners: list[float]


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    require_columns(submission, ["id", "PredictionString"])
    truth = [_boxes(text) for text in answers["PredictionString"]]
    labels = sorted({box.label for row in truth for box in row})
    parse = partial(_boxes, labels=labels)
    boxes = parse_texts(submission, "PredictionString", parse, expected="class, confidence and corners of each box")
    predicted = [boxes[k] for k in alignment(submission, answers, on="id")]
    return float(np.mean([_average_precision(truth, predicted, label) for label in labels]))


def _boxes(text: str, labels: Collection[str] = ()) -> list[Box]:
    boxes = []
    for label, *numbers in split_records(text, 6):
        confidence, *corners = to_floats(numbers)
        if label in labels and not math.isfinite(confidence):
            raise ValueError(f"the confidence {confidence} of {label!r} is not finite")
        boxes.append(Box(label, confidence, corners))
    return boxes


def _average_precision(truth: Iterable[list[Box]], predicted: Iterable[list[Box]], label: str) -> float:
    """Average precision of a class, in which missed boxes, and rows without the class, have the score 0."""
    hits: list[bool] = []
    scores: list[float] = []
    for true_boxes, predicted_boxes in zip(truth, predicted, strict=True):
        objects = [box.corners for box in true_boxes if box.label == label]
        found = sorted((box for box in predicted_boxes if box.label == label), key=lambda box: -box.confidence)
        matches = greedy_match(box_iou([box.corners for box in found], objects), 0.5)
        hits += [match >= 0 for match in matches]
        scores += [box.confidence for box in found]
        missed = [True] * (len(objects) - int((matches >= 0).sum()))
        added = missed if objects or found else [False]
        hits += added
        scores += [0.0] * len(added)
    return average_precision_score(hits, scores)
