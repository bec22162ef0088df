from collections.abc import Collection, Iterable
from functools import partial

import numpy as np
import pandas as pd
from sklearn.metrics import average_precision_score

from pytest_mlebench.grading import alignment, labelled_records, parse_texts, require_columns
from pytest_mlebench.grading.metrics.detection import box_iou, greedy_match

NONE = np.empty((0, 5))
LABELS = ("negative", "typical", "indeterminate", "atypical", "none", "opacity")

Boxes = dict[str, np.ndarray]
"""Confidence and corners of the boxes in a row, by class: shape (boxes, 5)."""


def check(submission: pd.DataFrame, template: pd.DataFrame) -> None:
    _read(submission, template, LABELS)


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> np.float64:
    truth = [_boxes(text) for text in answers["PredictionString"]]
    labels = sorted({label for row in truth for label in row})
    predicted = _read(submission, answers, labels)
    return np.float64(np.mean([_average_precision(truth, predicted, label) for label in labels]))


def _read(submission: pd.DataFrame, template: pd.DataFrame, labels: Collection[str]) -> list[Boxes]:
    require_columns(submission, ["id", "PredictionString"])
    order = alignment(submission, template, on="id")
    parse = partial(_boxes, labels=labels)
    boxes = parse_texts(submission, "PredictionString", parse, expected="class, confidence and corners of each box")
    return [boxes[k] for k in order]


def _boxes(text: str, labels: Collection[str] = ()) -> Boxes:
    names, numbers = labelled_records(text, 6)
    rows: dict[str, list[int]] = {}
    for row, name in enumerate(names):
        rows.setdefault(name, []).append(row)
    boxes = {name: numbers[found] for name, found in rows.items() if name in labels or not labels}
    for name in labels:
        wrong = ~np.isfinite(boxes.get(name, NONE)[:, 0])
        if wrong.any():
            raise ValueError(f"the confidence {boxes[name][wrong][0, 0]} of {name!r} is not finite")
    return boxes


def _average_precision(truth: Iterable[Boxes], predicted: Iterable[Boxes], label: str) -> float:
    """Average precision of a class, in which missed boxes, and rows without the class, have the score 0."""
    hits: list[bool] = []
    scores: list[float] = []
    missed = absent = 0
    for true_boxes, predicted_boxes in zip(truth, predicted, strict=True):
        objects, found = true_boxes.get(label, NONE), predicted_boxes.get(label, NONE)
        found = found[np.argsort(-found[:, 0], kind="stable")]
        if len(objects) and len(found):
            matched = greedy_match(box_iou(found[:, 1:], objects[:, 1:]), 0.5) >= 0
        else:
            matched = np.zeros(len(found), dtype=bool)
            absent += not len(objects) and not len(found)
        missed += len(objects) - int(matched.sum())
        hits += matched.tolist()
        scores += found[:, 0].tolist()
    return average_precision_score(hits + [True] * missed + [False] * absent, scores + [0.0] * (missed + absent))
