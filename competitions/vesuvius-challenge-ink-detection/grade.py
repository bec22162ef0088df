from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image

from pytest_mlebench.authoring import alignment, parse_texts, require_columns, require_row_count
from pytest_mlebench.authoring.metrics.segmentation import fbeta
from pytest_mlebench.authoring.rle import Runs, decode_rle
from pytest_mlebench.authoring.tables import read_csv


def read_template(public: Path) -> pd.DataFrame:
    with Image.open(public / "test/a/mask.png") as mask:
        width, height = mask.size
    return read_csv(public / "sample_submission.csv").assign(width=width, height=height)


def check(submission: pd.DataFrame, template: pd.DataFrame) -> list[Runs]:
    require_columns(submission, ["Id", "Predicted"], exactly=True)
    require_row_count(submission, template)
    alignment(submission, template, on="Id")
    return _masks(submission, template)


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> np.float64:
    pairs = zip(_masks(answers, answers), check(submission, answers), strict=True)
    return np.float64(np.mean([fbeta(*pair, beta=0.5) for pair in pairs]))


def _masks(table: pd.DataFrame, images: pd.DataFrame) -> list[Runs]:
    sizes = images["height"] * images["width"]  # for a single image, whose row needs no alignment
    return parse_texts(table, "Predicted", decode_rle, sizes, expected="pairs of start and length")
