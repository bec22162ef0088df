import numpy as np
import pandas as pd

from pytest_mlebench.data.rle import decode_rle
from pytest_mlebench.grading import align, alignment, parse_texts, require_columns
from pytest_mlebench.grading.metrics.segmentation import dice

RUNS = "pairs of start and length"


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    require_columns(submission, ["id", "predicted"])
    alignment(submission, answers, on="id")
    answers = align(answers, submission, on="id")  # not the submission, whose rows a reason may have to number
    sizes = answers["width_pixels"] * answers["height_pixels"]
    predicted = parse_texts(submission, "predicted", decode_rle, sizes, expected=RUNS, missing="")
    truth = parse_texts(answers, "encoding", decode_rle, sizes, expected=RUNS)
    return float(np.mean([dice(*pair) for pair in zip(truth, predicted, strict=True)]))
