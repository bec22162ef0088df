from collections.abc import Collection, Sequence
from contextlib import suppress
from functools import partial

import numpy as np
import pandas as pd
from sklearn.metrics import average_precision_score

from pytest_mlebench.authoring import alignment, labelled_columns, labelled_records, parse_texts, require_columns, texts
from pytest_mlebench.authoring.metrics.detection import greedy_matches, paired_box_iou

LABELS = ("negative", "typical", "indeterminate", "atypical", "none", "opacity")
BOX = ["confidence", "x_min", "y_min", "x_max", "y_max"]

Row = tuple[list[str], np.ndarray]
"""The boxes of a row: their classes, and an array of their confidences and corners."""


def check(submission: pd.DataFrame, template: pd.DataFrame) -> None:
    read_boxes(submission, template, LABELS)


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> np.float64:
    truth = box_table(*labelled_columns(answers["PredictionString"].tolist(), 6))
    labels = sorted(truth["class"].unique())
    predicted = read_boxes(submission, answers, labels)
    return np.float64(np.mean(_average_precisions(truth, predicted, labels, len(answers))))


def read_boxes(submission: pd.DataFrame, template: pd.DataFrame, labels: Collection[str]) -> pd.DataFrame:
    """Return the predicted boxes of the classes, with their row's index in the template."""
    require_columns(submission, ["id", "PredictionString"])
    order = alignment(submission, template, on="id")
    boxes = _boxes(submission, labels)
    number = np.empty(len(order), dtype=np.int64)
    number[order] = np.arange(len(order))
    return boxes[boxes["class"].isin(labels)].assign(row=lambda kept: number[kept["row"]])


def _boxes(submission: pd.DataFrame, labels: Collection[str]) -> pd.DataFrame:
    with suppress(ValueError):
        if submission["PredictionString"].notna().all() and pd.api.types.is_string_dtype(
            submission["PredictionString"]
        ):
            boxes = box_table(*labelled_columns(texts(submission, "PredictionString").tolist(), 6))
            if np.isfinite(boxes["confidence"][boxes["class"].isin(labels)]).all():
                return boxes
    # Slower, but reports the row of an error.
    parse = partial(_row, labels=labels)
    rows = parse_texts(submission, "PredictionString", parse, expected="class, confidence and corners of each box")
    names = [name for names, _ in rows for name in names]
    counts = np.array([len(names) for names, _ in rows], dtype=np.int64)
    return box_table(counts, names, np.concatenate([np.empty((0, 5)), *(numbers for _, numbers in rows)]))


def box_table(counts: np.ndarray, names: Sequence[str], numbers: np.ndarray) -> pd.DataFrame:
    table = pd.DataFrame(numbers, columns=BOX)
    table["row"] = np.repeat(np.arange(len(counts)), counts)
    table["class"] = pd.Series(names, dtype=object)
    return table


def _row(text: str, labels: Collection[str]) -> Row:
    names, numbers = labelled_records(text, 6)
    for label in labels:
        wrong = np.flatnonzero([name == label for name in names] & ~np.isfinite(numbers[:, 0]))
        if len(wrong):
            raise ValueError(f"the confidence {numbers[wrong[0], 0]} of {label!r} is not finite")
    return names, numbers


def _average_precisions(truth: pd.DataFrame, predicted: pd.DataFrame, labels: Sequence[str], rows: int) -> list[float]:
    """Return the average precision of each class. Missed boxes, and rows without the class, get the score 0."""
    of_true, of_predicted = (pd.Index(labels).get_indexer(table["class"]) for table in (truth, predicted))
    true_group, group = of_true * rows + truth["row"].to_numpy(), of_predicted * rows + predicted["row"].to_numpy()
    confidence = predicted["confidence"].to_numpy()
    order = np.lexsort((-confidence, group))
    group, confidence, of_predicted = group[order], confidence[order], of_predicted[order]
    true_order = np.argsort(true_group, kind="stable")
    first, last = (np.searchsorted(true_group[true_order], group, side=side) for side in ("left", "right"))
    boxes, true_boxes = predicted[BOX[1:]].to_numpy()[order], truth[BOX[1:]].to_numpy()[true_order]
    hits = greedy_matches(partial(paired_box_iou, boxes, true_boxes), first, last, 0.5) >= 0

    results = []
    for label in range(len(labels)):
        mine, objects = of_predicted == label, true_group[of_true == label]
        missed = len(objects) - int(hits[mine].sum())
        absent = rows - len(np.union1d(objects, group[mine]))
        is_true = np.concatenate([hits[mine], np.ones(missed, dtype=bool), np.zeros(absent, dtype=bool)])
        scores = np.concatenate([confidence[mine], np.zeros(missed + absent)])
        results.append(average_precision_score(is_true, scores))
    return results
