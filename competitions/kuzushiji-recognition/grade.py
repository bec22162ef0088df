import numpy as np
import pandas as pd

from pytest_mlebench.authoring import alignment, labelled_records, parse_texts, require_columns
from pytest_mlebench.authoring.resampling import RowScores, ratio

Labelled = tuple[list[str], np.ndarray]
"""Characters, and an array with x and y of each point, or with left, top, width and height of each box."""


def check(submission: pd.DataFrame, template: pd.DataFrame) -> list[Labelled]:
    require_columns(submission, ["image_id", "labels"])
    order = alignment(submission, template, on="image_id")
    points = parse_texts(submission, "labels", _points, expected="character, x and y of each character", missing="")
    return [points[k] for k in order]


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    points = check(submission, answers)
    boxes = parse_texts(answers, "labels", _boxes, expected="boxes", missing="")
    hits = sum(_hits(*page) for page in zip(boxes, points, strict=True))
    total = sum(len(labels) for labels, _ in boxes) + sum(len(labels) for labels, _ in points)
    return 2 * hits / total if total else 0.0


def row_scores(submission: pd.DataFrame, answers: pd.DataFrame) -> RowScores:
    points = check(submission, answers)
    boxes = parse_texts(answers, "labels", _boxes, expected="boxes", missing="")
    pages = list(zip(boxes, points, strict=True))
    return ratio([2 * _hits(*page) for page in pages], [len(true[0]) + len(given[0]) for true, given in pages])


def _points(text: str) -> Labelled:
    return labelled_records(text, 3, separator=" ") if text else ([], np.empty((0, 2)))


def _boxes(text: str) -> Labelled:
    return labelled_records(text, 5)


def _hits(boxes: Labelled, points: Labelled) -> int:
    """Return the number of hits. Each box in turn claims the first remaining point of its character inside it."""
    characters, corners = boxes
    rows: dict[str, list[int]] = {character: [] for character in characters}
    for row, character in enumerate(points[0]):
        if character in rows:
            rows[character].append(row)
    free = {character: points[1][found] for character, found in rows.items()}
    hits = 0
    for character, (left, top, width, height) in zip(characters, corners.tolist(), strict=True):
        x, y = free[character].T
        inside = (left < x) & (x < left + width) & (top < y) & (y < top + height)
        if inside.any():
            free[character][inside.argmax()] = np.nan  # NaN is in no box
            hits += 1
    return hits
