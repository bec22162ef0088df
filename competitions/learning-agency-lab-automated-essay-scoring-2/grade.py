import pandas as pd
from sklearn.metrics import cohen_kappa_score

from pytest_mlebench.grading import InvalidSubmission, predictions


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    scores = predictions(submission, answers, "score", on="essay_id")
    if (fraction := scores % 1 != 0).any():
        essay = answers["essay_id"][fraction.argmax()]
        raise InvalidSubmission(f"column 'score', essay_id {essay!r}: {scores[fraction][0]} is not a whole number")
    return cohen_kappa_score(answers["score"], scores, weights="quadratic")
