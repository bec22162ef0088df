import numpy as np
import pandas as pd

from pytest_mlebench.authoring import InvalidSubmission
from pytest_mlebench.authoring.metrics.detection import voc_average_precisions

from .. import grade as first


def check(submission: pd.DataFrame, template: pd.DataFrame) -> pd.DataFrame:
    """Return the predicted boxes, with their row's index in the template."""
    boxes = first.read_boxes(submission, template, first.LABELS)
    if (wrong := ~np.isfinite(boxes[first.BOX]).all(axis=1)).any():
        id = template["id"].iloc[boxes["row"][wrong].iloc[0]]
        raise InvalidSubmission(f"column 'PredictionString', id {id!r}: a confidence or a corner is not finite")
    return boxes


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> np.float64:
    return np.float64(voc_average_precisions(check(answers, answers), check(submission, answers), threshold=0.5).mean())
