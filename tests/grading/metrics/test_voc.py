"""PASCAL VOC's average precision, compared with a box-by-box version of the development kit's procedure."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from pytest_mlebench.authoring.metrics.detection import CORNERS, box_iou, voc_average_precisions


def devkit(true: pd.DataFrame, predicted: pd.DataFrame, threshold: float) -> float:
    """The average precision of one class."""
    taken, hits = set(), []
    for _, box in predicted.sort_values("confidence", ascending=False, kind="stable").iterrows():
        candidates = true[true["row"] == box["row"]]
        overlaps = [float(box_iou(box[list(CORNERS)], other)[0, 0]) for other in candidates[list(CORNERS)].to_numpy()]
        best = int(np.argmax(overlaps)) if overlaps else -1
        is_hit = best >= 0 and overlaps[best] > threshold and candidates.index[best] not in taken
        hits.append(is_hit)
        if is_hit:
            taken.add(candidates.index[best])
    found = np.cumsum(hits)
    recall = np.concatenate([[0], found / len(true), [1]])
    precision = np.concatenate([[0], found / np.arange(1, len(hits) + 1), [0]])
    for k in range(len(precision) - 1, 0, -1):
        precision[k - 1] = max(precision[k - 1], precision[k])
    return float(np.sum((recall[1:] - recall[:-1]) * precision[1:]))


def boxes(rng: np.random.Generator, count: int) -> pd.DataFrame:
    low = rng.integers(0, 10, (count, 2))
    table = pd.DataFrame(np.hstack([low, low + rng.integers(1, 9, (count, 2))]), columns=list(CORNERS))
    return table.assign(**{"row": rng.integers(0, 4, count), "class": rng.integers(0, 3, count)})


@pytest.mark.parametrize("seed", range(5))
def test_average_precision_matches_the_development_kit(seed: int) -> None:
    rng = np.random.default_rng(seed)
    true, predicted = boxes(rng, 20), boxes(rng, 60).assign(confidence=rng.permutation(60))
    expected = [
        devkit(true[true["class"] == label], predicted[predicted["class"] == label], 0.4)
        for label in np.unique(true["class"])
    ]
    assert voc_average_precisions(true, predicted, threshold=0.4) == pytest.approx(expected)
    assert voc_average_precisions(true, predicted.head(0), threshold=0.4) == pytest.approx(0)
