"""Exceptions for ``full_size``: columns that identify rows, and how much larger fields are in the full data than in the
synthetic data."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pandas as pd

from tests.competitions.worst_cases import WorstCase

Tables = tuple[pd.DataFrame, pd.DataFrame]
Content = Callable[[pd.DataFrame, pd.DataFrame, np.random.Generator], Tables]


@dataclass(frozen=True, kw_only=True)
class Shape:
    """How a competition's rows are multiplied.

    ``ids``: columns (or JSON keys) that get the number of the copy; by default the sample submission's first column.
    ``variants``: label columns, with the number of label sets among which the copies alternate, to test many classes.
    ``longer``: text columns (or JSON keys), with the factor by which text in the full data is longer.
    ``keep_order``: rows are graded by position. ``more_in_submission``: the submission also has rows without an answer.
    ``contents``: functions that rewrite the synthetic answers and submission before they are copied.
    ``worst_cases``: malicious submissions for this competition's metric, derived from a good one.
    """

    ids: tuple[str, ...] = ()
    variants: dict[str, int] = field(default_factory=dict)
    longer: dict[str, int] = field(default_factory=dict)
    keep_order: bool = False
    more_in_submission: bool = False
    contents: tuple[Content, ...] = ()
    worst_cases: Callable[[pd.DataFrame], Iterator[WorstCase]] = lambda good: iter(())


def masks(
    answers: pd.DataFrame,
    submission: pd.DataFrame,
    rng: np.random.Generator,
    *,
    columns: tuple[str, str],
    size: tuple[int, int],
    size_columns: tuple[str, str] | None,
    runs: int,
) -> Tables:
    """Run-length masks of the full image's size (height, width). Submitted runs are shifted by one pixel."""
    truth = [_random_runs(rng, runs, size[0] * size[1]) for _ in range(len(answers))]
    answers = answers.assign(**{columns[0]: [_text(starts, lengths) for starts, lengths in truth]})
    if size_columns:
        answers = answers.assign(**dict(zip(size_columns, map(str, size), strict=True)))
    submission = submission.assign(**{columns[1]: [_text(starts + 1, lengths) for starts, lengths in truth]})
    return answers, submission


def _random_runs(rng: np.random.Generator, runs: int, pixels: int) -> tuple[np.ndarray, np.ndarray]:
    period = pixels // (runs + 1)
    starts = period * np.arange(runs) + rng.integers(1, period // 4 + 1, runs)
    return starts, rng.integers(1, period // 2 + 1, runs)


def _text(starts: np.ndarray, lengths: np.ndarray) -> str:
    return " ".join(map(str, np.column_stack([starts, lengths]).ravel().tolist()))


def organs(answers: pd.DataFrame, submission: pd.DataFrame, rng: np.random.Generator) -> Tables:
    """One day of a stomach scan: three spherical organs in 144 slices of 266 x 266 pixels. Predictions are larger."""
    side, slices = 266, 144
    y, x = np.mgrid[:side, :side]
    balls = {"large_bowel": (50, 90, 120, 30), "small_bowel": (80, 150, 150, 40), "stomach": (100, 100, 170, 25)}
    rows = []
    for z in range(slices):
        for organ, (cz, cy, cx, radius) in balls.items():
            inside = (x - cx) ** 2 + (y - cy) ** 2 + (z - cz) ** 2
            texts = [_runs(inside <= r**2) for r in (radius, radius + 2)]
            rows.append((f"case1_day0_slice_{z + 1:04d}", organ, *texts))
    table = pd.DataFrame(rows, columns=["id", "class", "truth", "predicted"])
    size = f"{side}.0"
    answers = table.assign(predicted=table["truth"], image_width=size, image_height=size).drop(columns="truth")
    return answers, table.drop(columns="truth")


def volumes(good: pd.DataFrame) -> Iterator[WorstCase]:
    """Predicted volumes with voxels as far from the organs as possible, or equally far from many voxels."""
    side, slices = 266, 144
    z, y, x = np.ogrid[:slices, :side, :side]
    from_middle = np.hypot(np.hypot((z - 72) / 60, (y - 133) / 110), (x - 133) / 110)
    around = np.hypot(y - 133, x - 133)
    everywhere = np.ones((slices, side, side), dtype=bool)
    noise = np.random.default_rng(1).random(everywhere.shape) < 0.001
    shapes = {
        "sheets": everywhere & ((z < 2) | (z >= slices - 2)),
        "many sheets": everywhere & (z % 20 == 0),
        "close sheets": everywhere & (z % 7 == 0),
        "three sheets": everywhere & (z % 70 == 0),
        "planes": everywhere & (x % 5 == 0) & (z % 3 == 0),
        "stripes": everywhere & (y % 9 == 0) & (x < 100),
        "lattice": everywhere & (y % 12 == 0) & (x % 12 == 0),
        "points": everywhere & (z % 6 == 0) & (y % 9 == 0) & (x % 9 == 0),
        "noise": noise,
        "shell": (from_middle < 1) & (from_middle > 0.99),
        "cylinder": everywhere & (around > 130) & (around < 131),
    }
    is_first = good["class"].eq(good["class"].iloc[0])
    number = good["id"].str.extract(r"(\d+)$")[0].astype(int) - 1
    for name, shape in shapes.items():
        texts = np.array([_runs(shape[k]) for k in range(slices)], dtype=object)
        predicted = np.where(is_first, texts[number.clip(upper=slices - 1)], "")
        yield name, partial(_as_csv, good.assign(predicted=predicted))


def _as_csv(table: pd.DataFrame) -> bytes:
    return table.to_csv(index=False).encode()


def _runs(mask: np.ndarray) -> str:
    edges = np.flatnonzero(np.diff(np.concatenate([[0], mask.ravel("F").astype(int), [0]])))
    return _text(edges[::2] + 1, edges[1::2] - edges[::2])


def boxes(
    answers: pd.DataFrame,
    submission: pd.DataFrame,
    rng: np.random.Generator,
    *,
    column: str,
    fields: tuple[int, int],
    x: int,
    times: int,
) -> Tables:
    """Lengthen lists of boxes: repeat each box several times, shifted along its coordinate ``x``.

    ``fields`` is the number of fields of a box in answers and in the submission.
    """
    longer = (
        table.assign(**{column: [_moved(text.split(), size, x, times) for text in table[column]]})
        for table, size in zip((answers, submission), fields, strict=True)
    )
    answers, submission = longer
    return answers, submission


def _moved(words: list[str], fields: int, x: int, times: int) -> str:
    return " ".join(
        repr(float(word) + 5000 * n) if k % fields == x and n else word
        for n in range(times)
        for k, word in enumerate(words)
    )


EXCEPTIONS = {
    "3d-object-detection-for-autonomous-vehicles": Shape(
        contents=(partial(boxes, column="PredictionString", fields=(9, 9), x=1, times=8),)
    ),
    "AI4Code": Shape(longer={"cell_order": 5}),
    "billion-word-imputation": Shape(longer={"sentence": 3}),
    "bms-molecular-translation": Shape(longer={"InChI": 3}),
    "cdiscount-image-classification-challenge": Shape(variants={"category_id": 300}),
    "detecting-insults-in-social-commentary": Shape(ids=("Comment",)),
    "facebook-recruiting-iii-keyword-extraction": Shape(variants={"Tags": 1000}, longer={"Body": 30}),
    "google-research-identify-contrails-reduce-global-warming": Shape(
        contents=(
            partial(
                masks, columns=("encoded_pixels",) * 2, size=(256, 256), size_columns=("height", "width"), runs=100
            ),
        )
    ),
    "h-and-m-personalized-fashion-recommendations": Shape(variants={"prediction": 1000}, more_in_submission=True),
    "herbarium-2020-fgvc7": Shape(variants={"Predicted": 2000}),
    "herbarium-2021-fgvc8": Shape(variants={"Predicted": 4000}),
    "herbarium-2022-fgvc9": Shape(variants={"Predicted": 1000}),
    "hotel-id-2021-fgvc8": Shape(variants={"hotel_id": 500}),
    "hubmap-kidney-segmentation": Shape(
        contents=(
            partial(
                masks,
                columns=("encoding", "predicted"),
                size=(30_000, 40_000),
                size_columns=("height_pixels", "width_pixels"),
                runs=100_000,
            ),
        )
    ),
    "imet-2020-fgvc7": Shape(variants={"attribute_ids": 100}),
    "inaturalist-2019-fgvc6": Shape(variants={"predicted": 50}),
    "iwildcam-2019-fgvc6": Shape(ids=("Id",)),
    "jigsaw-unintended-bias-in-toxicity-classification": Shape(longer={"comment_text": 5}),
    "kuzushiji-recognition": Shape(contents=(partial(boxes, column="labels", fields=(5, 3), x=1, times=30),)),
    "learning-agency-lab-automated-essay-scoring-2": Shape(longer={"full_text": 20}),
    "lmsys-chatbot-arena": Shape(longer={"prompt": 10, "response_a": 20, "response_b": 20}),
    "osic-pulmonary-fibrosis-progression": Shape(ids=("Patient_Week", "Patient")),
    "rsna-2022-cervical-spine-fracture-detection": Shape(ids=("row_id", "StudyInstanceUID")),
    "tensorflow2-question-answering": Shape(longer={"document_text": 5000}),
    "tgs-salt-identification-challenge": Shape(
        contents=(partial(masks, columns=("rle_mask",) * 2, size=(101, 101), size_columns=None, runs=100),)
    ),
    "uw-madison-gi-tract-image-segmentation": Shape(contents=(organs,), keep_order=True, worst_cases=volumes),
    "vesuvius-challenge-ink-detection": Shape(
        contents=(
            partial(
                masks,
                columns=("Predicted",) * 2,
                size=(7606, 5249),
                size_columns=("height", "width"),
                runs=100_000,
            ),
        )
    ),
    "whale-categorization-playground": Shape(variants={"Id": 100}),
}
