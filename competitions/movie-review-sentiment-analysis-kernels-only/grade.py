from functools import partial

import pandas as pd
from sklearn.metrics import accuracy_score

from pytest_mlebench.authoring import class_labels
from pytest_mlebench.authoring.resampling import RowScores, mean_of

check = partial(class_labels, column="Sentiment", on="PhraseId")


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    return accuracy_score(answers["Sentiment"], check(submission, answers))


def row_scores(submission: pd.DataFrame, answers: pd.DataFrame) -> RowScores:
    right = check(submission, answers) == answers["Sentiment"].to_numpy()
    return mean_of(right, units=answers["SentenceId"])  # resample whole sentences
