from pathlib import Path

import numpy as np
import pandas as pd

from pytest_mlebench.authoring import align, alignment, parse_texts, require_columns
from pytest_mlebench.authoring.metrics.segmentation import dice
from pytest_mlebench.authoring.rle import Runs, decode_rle
from pytest_mlebench.authoring.tables import read_csv

RUNS = "pairs of start and length"
SIZE = ["width_pixels", "height_pixels"]


def read_template(public: Path) -> pd.DataFrame:
    """Return the ids and sizes of the test images."""
    images = read_csv(public / "HuBMAP-20-dataset_information.csv")
    images = images.assign(id=images["image_file"].str.removesuffix(".tiff"))
    return read_csv(public / "sample_submission.csv").merge(images[["id", *SIZE]], on="id")


def check(submission: pd.DataFrame, template: pd.DataFrame) -> list[Runs]:
    """Return the predicted masks in the order of the submission."""
    require_columns(submission, ["id", "predicted"])
    alignment(submission, template, on="id")
    template = align(template, submission, on="id")  # so that errors report the submission's rows
    return parse_texts(submission, "predicted", decode_rle, template[SIZE].prod(axis=1), expected=RUNS, missing="")


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> np.float64:
    predicted = check(submission, answers)
    answers = align(answers, submission, on="id")
    truth = parse_texts(answers, "encoding", decode_rle, answers[SIZE].prod(axis=1), expected=RUNS)
    return np.float64(np.mean([dice(*pair) for pair in zip(truth, predicted, strict=True)]))
