import numpy as np
import pandas as pd

from pytest_mlebench.authoring import align, ranked_labels, require_columns
from pytest_mlebench.authoring.metrics.ranking import average_precisions_at_k, mean_average_precision_at_k


def check(submission: pd.DataFrame, template: pd.DataFrame) -> list[list[str]]:
    require_columns(submission, ["Image", "Id"], exactly=True)
    return ranked_labels(align(submission, template, on="Image"), "Id", k=5)


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> np.float64:
    return np.float64(
        mean_average_precision_at_k([{whale} for whale in answers["Id"]], check(submission, answers), k=5)
    )


def row_scores(submission: pd.DataFrame, answers: pd.DataFrame) -> np.ndarray:
    return average_precisions_at_k([{whale} for whale in answers["Id"]], check(submission, answers), k=5)
