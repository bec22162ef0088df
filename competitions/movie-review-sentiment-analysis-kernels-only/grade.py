import pandas as pd
from sklearn.metrics import accuracy_score

from pytest_mlebench.grading import numeric, predictions, require_columns, require_whole


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    require_columns(submission, ["PhraseId", "Sentiment"])
    require_whole(numeric(submission, "Sentiment"), "Sentiment")
    return accuracy_score(answers["Sentiment"], predictions(submission, answers, "Sentiment", on="PhraseId"))
