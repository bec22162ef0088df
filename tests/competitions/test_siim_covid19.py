"""Scores of random submissions for siim-covid19-detection match the metric's definition, computed row by row."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import average_precision_score

from pytest_mlebench.authoring import InvalidSubmission
from pytest_mlebench.catalog import default_catalogue

GRADE = default_catalogue()["siim-covid19-detection"].function("grade", "grade")
LABELS = ["negative", "none", "opacity", "typical"]


def boxes(rng: np.random.Generator, labels: list[str], confidences: list[str]) -> str:
    """Up to four boxes, many of which overlap."""
    return " ".join(
        f"{rng.choice(labels)} {rng.choice(confidences)} {x} {y} {x + rng.integers(1, 5)} {y + rng.integers(-1, 5)}"
        for x, y in rng.integers(0, 3, (rng.integers(0, 5), 2))
    )


def iou(a: list[float], b: list[float]) -> float:
    both = max(0.0, min(a[2], b[2]) - max(a[0], b[0])) * max(0.0, min(a[3], b[3]) - max(a[1], b[1]))
    union = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - both
    return both / union if union > 0 else 0.0


def parsed(text: str, label: str) -> list[list[float]]:
    parts = text.split()
    return [[float(part) for part in parts[k + 1 : k + 6]] for k in range(0, len(parts), 6) if parts[k] == label]


def expected(submission: dict[str, str], answers: dict[str, str]) -> float:
    scores = []
    for label in sorted({part for text in answers.values() for part in text.split()[::6]}):
        pairs: list[tuple[int, float]] = []
        for row, text in answers.items():
            free, found = parsed(text, label), parsed(submission[row], label)
            before = len(pairs)
            for confidence, *corners in sorted(found, key=lambda box: -box[0]):
                overlaps = [iou(corners, box[1:]) for box in free]
                best = int(np.argmax(overlaps)) if overlaps else -1
                hit = best >= 0 and overlaps[best] > 0.5
                pairs.append((int(hit), confidence))
                if hit:
                    del free[best]
            pairs += [(1, 0.0)] * len(free)
            pairs += [(0, 0.0)] * (len(pairs) == before)
        scores.append(average_precision_score(*zip(*pairs, strict=True)))
    return float(np.mean(scores))


def table(texts: dict[str, str]) -> pd.DataFrame:
    return pd.DataFrame({"id": list(texts), "PredictionString": pd.Series(list(texts.values()), dtype="str")})


def test_scores_of_random_submissions_match_the_definition() -> None:
    rng = np.random.default_rng(0)
    for _ in range(15):
        answers = {f"{k}_image": boxes(rng, LABELS, ["1"]) or "none 1 0 0 1 1" for k in range(12)}
        submission = {row: boxes(rng, [*LABELS, "other"], ["0.5", "0.9", "0", "-1", "1e3"]) for row in answers}
        shuffled = table(submission).sample(frac=1, random_state=1)
        assert GRADE(shuffled, table(answers)) == pytest.approx(expected(submission, answers), rel=1e-12)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("none 1 0 0 1", "row 2: it has 5 values, which is not a multiple of 6"),
        ("none one 0 0 1 1", "row 2: 'one' is not a number"),
        ("none nan 0 0 1 1", "row 2: the confidence nan of 'none' is not finite"),
    ],
)
def test_a_wrong_row_is_named(text: str, reason: str) -> None:
    answers = {"a": "none 1 0 0 1 1", "b": "opacity 1 0 0 1 1"}
    with pytest.raises(InvalidSubmission, match=reason):
        GRADE(table({"a": "none 1 0 0 1 1", "b": text}), table(answers))
