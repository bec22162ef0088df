import pandas as pd

from pytest_mlebench.data.rle import Runs, decode_rle
from pytest_mlebench.grading import align, alignment, parse_texts, require_columns
from pytest_mlebench.grading.metrics.segmentation import dice, join


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    require_columns(submission, ["record_id", "encoded_pixels"])
    alignment(submission, answers, on="record_id")
    answers = align(answers, submission, on="record_id")  # not the submission, whose rows a reason may have to number
    sizes = answers["height"] * answers["width"]
    predicted, truth = (join(_masks(table, sizes), sizes) for table in (submission, answers))
    return dice(truth, predicted)


def _masks(table: pd.DataFrame, sizes: "pd.Series[int]") -> list[Runs]:
    return parse_texts(table, "encoded_pixels", _decode, sizes, expected="pairs of start and length, or - for none")


def _decode(text: str, size: int) -> Runs:
    return decode_rle("" if text == "-" else text, size)
