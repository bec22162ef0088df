from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import chain

import numpy as np
import pandas as pd

from pytest_mlebench.authoring import (
    InvalidSubmission,
    alignment,
    labelled_columns,
    labelled_records,
    parse_texts,
    require_columns,
    texts,
)
from pytest_mlebench.authoring.metrics.detection import average_precisions, rectangle_corners, upright_box_iou

FIELDS = ["center_x", "center_y", "center_z", "width", "length", "height", "yaw"]
THRESHOLDS = np.arange(0.5, 1.0, 0.05)
CHUNK = 1 << 17  # pairs of predicted and true boxes per chunk

Row = tuple[list[str], np.ndarray]
"""The boxes of a sample: their classes, and an array of their confidences and FIELDS."""


def check(submission: pd.DataFrame, template: pd.DataFrame) -> None:
    require_valid(*read(submission, template))


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    return float(np.mean(_precisions(submission, answers)))


def row_scores(submission: pd.DataFrame, answers: pd.DataFrame) -> np.ndarray:
    return _precisions(submission, answers).mean(axis=0)


def _precisions(submission: pd.DataFrame, answers: pd.DataFrame) -> np.ndarray:
    """Return average precisions, as means over a sample's classes: shape (thresholds, samples)."""
    predicted, rows = read(submission, answers)
    truth, groups = true_boxes(answers)
    # Boxes of classes that a sample does not have are ignored without validation.
    predicted = of_groups(predicted, truth)
    require_valid(predicted, rows)
    per_sample = np.bincount(groups["sample"])
    scores = []
    for ranked, hits in hits_by_threshold(predicted, truth, groups):
        precisions = average_precisions(hits, ranked["group"], groups["size"])
        scores.append(np.bincount(groups["sample"], weights=precisions) / per_sample)
    return np.array(scores)


def true_boxes(answers: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the true boxes, sorted by ``group``, and the groups: the boxes of one class in one sample."""
    truth = _table(*labelled_columns(answers["PredictionString"].tolist(), 9, label=-1, separator=" "))
    truth["group"] = truth.groupby(["sample", "class"]).ngroup()
    truth = truth.sort_values("group", kind="stable", ignore_index=True)
    groups = truth.groupby("group").agg(sample=("sample", "first"), size=("sample", "size"))
    groups["start"] = np.cumsum(groups["size"]) - groups["size"]
    return truth, groups


def of_groups(predicted: pd.DataFrame, truth: pd.DataFrame) -> pd.DataFrame:
    """Return the predicted boxes whose class occurs in their sample, with their ``group``."""
    return predicted.merge(truth[["sample", "class", "group"]].drop_duplicates(), on=["sample", "class"])


def hits_by_threshold(
    predicted: pd.DataFrame, truth: pd.DataFrame, groups: pd.DataFrame
) -> Iterator[tuple[pd.DataFrame, np.ndarray]]:
    """For each threshold, yield the boxes by group and descending confidence, and whether each box is a hit."""
    predicted = predicted.sort_values("confidence", ascending=False, kind="stable")
    predicted = predicted.sort_values("group", kind="stable", ignore_index=True)
    overlap, best = _best_overlaps(predicted, truth, groups)
    for threshold in THRESHOLDS:
        candidates = np.flatnonzero(overlap > threshold)
        hits = np.zeros(len(predicted), dtype=bool)
        hits[candidates[np.unique(best[candidates], return_index=True)[1]]] = True  # only the first match counts
        yield predicted, hits


def read(submission: pd.DataFrame, template: pd.DataFrame) -> tuple[pd.DataFrame, np.ndarray]:
    """Return the predicted boxes, and for each sample its row number in the agent's file."""
    require_columns(submission, ["Id", "PredictionString"])
    order = alignment(submission, template, on="Id")
    boxes = _predicted(submission)
    sample = np.empty(len(order), dtype=np.int64)
    sample[order] = np.arange(len(order))
    return boxes.assign(sample=sample[boxes["sample"]]), order + 1


def _predicted(submission: pd.DataFrame) -> pd.DataFrame:
    """Return all predicted boxes; ``sample`` is the index of their row."""
    with suppress(ValueError):
        if pd.api.types.is_string_dtype(submission["PredictionString"]):
            boxes = _table(
                *labelled_columns(texts(submission, "PredictionString").tolist(), 9, label=-1, separator=" ")
            )
            if not np.isinf(boxes["yaw"]).any():
                return boxes
    # Slower, but reports the row of an error.
    rows = parse_texts(submission, "PredictionString", _boxes, expected="nine fields of each box", missing="")
    counts = np.array([len(labels) for labels, _ in rows], dtype=np.int64)
    values = np.concatenate([np.empty((0, 8)), *(values for _, values in rows)])
    return _table(counts, list(chain.from_iterable(labels for labels, _ in rows)), values)


def _boxes(text: str) -> Row:
    labels, values = labelled_records(text, 9, label=-1, separator=" ") if text.strip() else ([], np.empty((0, 8)))
    if np.isinf(values[:, -1]).any():
        raise ValueError("the yaw of a box is infinite")
    return labels, values


def _table(counts: np.ndarray, labels: Sequence[str], values: np.ndarray) -> pd.DataFrame:
    table = pd.DataFrame(values, columns=["confidence", *FIELDS])
    table["sample"] = np.repeat(np.arange(len(counts)), counts)
    table["class"] = pd.Series(labels, dtype=object)
    return table


def require_valid(boxes: pd.DataFrame, rows: np.ndarray) -> None:
    values = boxes[FIELDS]
    finite = np.isfinite(values[["center_x", "center_y", "width", "length"]]).all(axis=1)
    with np.errstate(invalid="ignore"):
        corners = rectangle_corners(values[["center_x", "center_y"]], values[["length", "width"]], values["yaw"])
        sides = np.roll(corners, -1, axis=1) - corners
        skew = np.abs((sides * np.roll(sides, -1, axis=1)).sum(axis=2)).max(axis=1, initial=0)
    for holds, what in (
        (values.notna().all(axis=1), "has a field that is not a number"),
        (finite, "has an infinite field"),
        ((values[["width", "length", "height"]] > 0).all(axis=1), "has a size that is not positive"),
        (skew <= 1e-8, "is too large or too far away for its rectangle on the ground to be computed"),
    ):
        if not holds.all():
            box = boxes.iloc[int(np.argmin(holds))]
            text = " ".join(f"{value:g}" for value in box[FIELDS])
            raise InvalidSubmission(
                f"column 'PredictionString', row {rows[box['sample']]}: the box {text} {box['class'][:40]} {what}"
            )


def _best_overlaps(predicted: pd.DataFrame, truth: pd.DataFrame, groups: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Return each predicted box's highest IoU with a true box of its group, if it can count, and that box's index."""
    overlap, best = np.zeros(len(predicted)), np.zeros(len(predicted), dtype=np.intp)
    boxes, true_boxes = predicted[FIELDS].to_numpy(), truth[FIELDS].to_numpy()
    group_of = predicted["group"].to_numpy()
    pairs_until = np.cumsum(groups["size"].to_numpy()[group_of])
    begin = 0
    while begin < len(predicted):
        end = max(int(np.searchsorted(pairs_until, pairs_until[begin] + CHUNK)), begin + 1)
        group = group_of[begin:end]
        sizes = groups["size"].to_numpy()[group]
        left = np.repeat(np.arange(begin, begin + len(group)), sizes)
        right = np.arange(len(left)) + np.repeat(groups["start"].to_numpy()[group] - np.cumsum(sizes) + sizes, sizes)
        near = _can_count(boxes[left], true_boxes[right])
        left, right = left[near], right[near]
        pairs = pd.DataFrame({"left": left, "right": right, "iou": upright_box_iou(boxes[left], true_boxes[right])})
        highest = pairs.loc[pairs.groupby("left")["iou"].idxmax()]
        overlap[highest["left"]], best[highest["left"]] = highest["iou"], highest["right"]
        begin = end
    return overlap, best


def _can_count(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return whether the IoU can exceed 0.5, the lowest threshold: then each centre lies in the other rectangle."""
    reach = np.minimum(np.hypot(a[:, 3], a[:, 4]), np.hypot(b[:, 3], b[:, 4])) / 2
    return np.hypot(a[:, 0] - b[:, 0], a[:, 1] - b[:, 1]) <= reach
