import numpy as np
import pandas as pd

from pytest_mlebench.authoring import predictions, require_columns
from pytest_mlebench.authoring.metrics.ranking import spearman


def check(submission: pd.DataFrame, template: pd.DataFrame) -> np.ndarray:
    targets = list(template.columns.drop("qa_id"))
    require_columns(submission, ["qa_id", *targets], exactly=True)
    return predictions(submission, template, targets, on="qa_id", between=(0, 1))


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> np.float64:
    """Return the mean over the targets that are not constant in the test set."""
    truth = answers.drop(columns="qa_id")
    predicted = pd.DataFrame(check(submission, answers), columns=truth.columns)
    varied = truth.columns[truth.nunique() > 1]
    correlations = np.zeros(len(varied))
    defined = (predicted[varied].nunique() > 1).to_numpy()
    correlations[defined] = spearman(truth[varied[defined]], predicted[varied[defined]])
    return np.float64(correlations.mean())
