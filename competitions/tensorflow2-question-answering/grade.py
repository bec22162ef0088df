import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pytest_mlebench.authoring import InvalidSubmission, alignment, require_columns, texts

Prediction = tuple[int, int] | str
"""A span of tokens, YES, NO, or "" for no answer."""


def read_answers(path: Path) -> pd.DataFrame:
    """Return the set of correct predictions of each row."""
    right: dict[str, set[Prediction]] = {}
    with path.open("rb") as lines:
        for line in lines:
            example = _annotations_and_id(line)
            annotation = example["annotations"][0]
            long = {_span(tokens) for tokens in [annotation["long_answer"]] if tokens["start_token"] != -1}
            short = {annotation["yes_no_answer"], *map(_span, annotation["short_answers"])} - {"NONE"}
            right[f"{example['example_id']}_long"] = long or {""}
            right[f"{example['example_id']}_short"] = short or {""}
    return pd.DataFrame({"example_id": right.keys(), "right": right.values()})


def check(submission: pd.DataFrame, template: pd.DataFrame) -> list[Prediction]:
    require_columns(submission, ["example_id", "PredictionString"])
    order = alignment(submission, template, on="example_id")
    predicted = [_parse(text, row) for row, text in enumerate(texts(submission, "PredictionString"), 1)]
    return [predicted[k] for k in order]


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    """Return the share of correct rows, which equals the reference's micro F1 over both classes."""
    pairs = zip(check(submission, answers), answers["right"], strict=True)
    return sum(given in right for given, right in pairs) / len(answers)


def row_scores(submission: pd.DataFrame, answers: pd.DataFrame) -> np.ndarray:
    return np.array([given in right for given, right in zip(check(submission, answers), answers["right"], strict=True)])


def _annotations_and_id(line: bytes) -> dict[str, Any]:
    # Skip the article, most of the line. A quote inside a JSON string is escaped, so it never follows a comma.
    start = line.rfind(b',"annotations":')
    end = json.loads(b"{" + line[start + 1 :]) if start >= 0 else {}
    return end if "example_id" in end else json.loads(line)


def _parse(text: str, row: int) -> Prediction:
    try:
        if text.count(":") == 1:
            start, end = text.split(":")
            return int(start), int(end)
        if text.strip() in ("YES", "NO", ""):
            return text.strip()
    except ValueError:
        pass
    raise InvalidSubmission(
        f"column 'PredictionString', row {row}: {text[:60]!r} is not a span start:end, YES, NO or empty"
    )


def _span(tokens: dict[str, int]) -> tuple[int, int]:
    return tokens["start_token"], tokens["end_token"]
