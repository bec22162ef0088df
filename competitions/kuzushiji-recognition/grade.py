from collections import defaultdict

import pandas as pd

from pytest_mlebench.grading import alignment, labelled_records, parse_texts, require_columns

Labelled = list[tuple[str, list[float]]]


def check(submission: pd.DataFrame, template: pd.DataFrame) -> list[Labelled]:
    require_columns(submission, ["image_id", "labels"])
    points = parse_texts(submission, "labels", _points, expected="character, x and y of each character", missing="")
    return [points[k] for k in alignment(submission, template, on="image_id")]


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    points = check(submission, answers)
    boxes = parse_texts(answers, "labels", _boxes, expected="boxes", missing="")
    hits = sum(_hits(*page) for page in zip(boxes, points, strict=True))
    total = sum(map(len, boxes)) + sum(map(len, points))
    return 2 * hits / total if total else 0.0


def _points(text: str) -> Labelled:
    return labelled_records(text, 3, separator=" ") if text else []


def _boxes(text: str) -> Labelled:
    return labelled_records(text, 5)


def _hits(boxes: Labelled, points: Labelled) -> int:
    """Each box in turn uses up the first point of its character that lies within it."""
    free = defaultdict(list)
    for character, point in points:
        free[character].append(point)
    hits = 0
    for character, (left, top, width, height) in boxes:
        for k, (x, y) in enumerate(free[character]):
            if left < x < left + width and top < y < top + height:
                del free[character][k]
                hits += 1
                break
    return hits
