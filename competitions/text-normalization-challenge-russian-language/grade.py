import pandas as pd

from pytest_mlebench.grading import align, require_columns, texts


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    require_columns(submission, ["id", "after"])
    spoken = texts(align(submission, answers, on="id"), "after", missing="nan")
    return (texts(answers, "after", missing="nan") == spoken).mean()  # accuracy_score would sort a million texts
