import numpy as np
import pandas as pd

from pytest_mlebench.data.rle import decode_rle
from pytest_mlebench.grading import alignment, parse_texts, require_columns, require_row_count
from pytest_mlebench.grading.metrics.segmentation import fbeta


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    require_columns(submission, ["Id", "Predicted"], exactly=True)
    require_row_count(submission, answers)
    alignment(submission, answers, on="Id")
    sizes = answers["height"] * answers["width"]  # of one image: its row needs no alignment
    truth, predicted = (
        parse_texts(table, "Predicted", decode_rle, sizes, expected="pairs of start and length")
        for table in (answers, submission)
    )
    return float(np.mean([fbeta(*pair, beta=0.5) for pair in zip(truth, predicted, strict=True)]))
