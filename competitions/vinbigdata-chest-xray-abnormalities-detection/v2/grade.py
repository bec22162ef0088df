import numpy as np
import pandas as pd

from pytest_mlebench.authoring import alignment, number_records, parse_texts, require_columns
from pytest_mlebench.authoring.metrics.detection import voc_average_precisions

from ..columns import CORNERS


def check(submission: pd.DataFrame, template: pd.DataFrame) -> pd.DataFrame:
    """Return the predicted boxes, with their image's index in the template."""
    require_columns(submission, ["image_id", "PredictionString"])
    expected = "class, confidence and corners of each box"
    rows = parse_texts(submission, "PredictionString", _boxes, expected=expected)
    # An id occurs in several rows of the answers, but in one row of a submission.
    order = alignment(submission, template.drop_duplicates("image_id"), on="image_id")
    columns = ["class", "confidence", *CORNERS]
    boxes = pd.DataFrame(np.concatenate([rows[k] for k in order]), columns=columns)
    return boxes.assign(row=np.repeat(np.arange(len(order)), [len(rows[k]) for k in order]))


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> np.float64:
    truth = answers.rename(columns={"class_id": "class"}).assign(row=pd.factorize(answers["image_id"])[0])
    return np.float64(voc_average_precisions(truth, check(submission, answers), threshold=0.4).mean())


def _boxes(text: str) -> np.ndarray:
    boxes = number_records(text, 6, separator=" ")
    if not np.isfinite(boxes).all():
        raise ValueError("a number is not finite")
    if (boxes[:, 0] % 1).any():
        raise ValueError("a class is not a whole number")
    if (boxes[:, 2:4] > boxes[:, 4:]).any():
        raise ValueError("x_max or y_max of a box is below its x_min or y_min")
    return boxes
