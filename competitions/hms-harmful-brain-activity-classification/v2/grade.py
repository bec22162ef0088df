import numpy as np
import pandas as pd

from pytest_mlebench.authoring import class_probabilities
from pytest_mlebench.authoring.metrics.classification import kl_divergence, kl_divergences

from ..labels import VOTES


def check(submission: pd.DataFrame, template: pd.DataFrame) -> np.ndarray:
    return class_probabilities(submission, template, VOTES, on="eeg_id", rtol=0, atol=1e-4)


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> np.float64:
    votes = answers[VOTES].to_numpy()
    return np.float64(kl_divergence(votes / votes.sum(axis=1, keepdims=True), check(submission, answers)))


def row_scores(submission: pd.DataFrame, answers: pd.DataFrame) -> np.ndarray:
    votes = answers[VOTES].to_numpy()
    return kl_divergences(votes / votes.sum(axis=1, keepdims=True), check(submission, answers))
