import numpy as np
import pandas as pd

from pytest_mlebench.authoring import align, alignment, parse_texts, require_columns
from pytest_mlebench.authoring.metrics.segmentation import area, dice, intersection, join
from pytest_mlebench.authoring.resampling import RowScores, ratio
from pytest_mlebench.authoring.rle import Runs, decode_rle


def check(submission: pd.DataFrame, template: pd.DataFrame) -> Runs:
    """Return the predicted masks, joined into one, in the order of the submission."""
    require_columns(submission, ["record_id", "encoded_pixels"])
    alignment(submission, template, on="record_id")
    # Align the template, not the submission, so that errors report the submission's row numbers.
    return _mask(submission, align(template, submission, on="record_id"))


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> np.float64:
    predicted = check(submission, answers)
    answers = align(answers, submission, on="record_id")
    return np.float64(dice(_mask(answers, answers), predicted))


def row_scores(submission: pd.DataFrame, answers: pd.DataFrame) -> RowScores:
    check(submission, answers)
    images = align(answers, submission, on="record_id")
    sizes = images["height"] * images["width"]
    pairs = list(zip(_masks(images, sizes), _masks(submission, sizes), strict=True))
    return ratio([2 * intersection(*pair) for pair in pairs], [area(true) + area(given) for true, given in pairs])


def _mask(table: pd.DataFrame, images: pd.DataFrame) -> Runs:
    sizes = images["height"] * images["width"]
    return join(_masks(table, sizes), sizes)


def _masks(table: pd.DataFrame, sizes: "pd.Series[int]") -> list[Runs]:
    return parse_texts(table, "encoded_pixels", _decode, sizes, expected="pairs of start and length, or - for none")


def _decode(text: str, size: int) -> Runs:
    return decode_rle("" if text == "-" else text, size)
