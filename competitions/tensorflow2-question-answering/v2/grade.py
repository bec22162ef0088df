import pandas as pd

from ..grade import check as check
from ..grade import read_answers as read_answers

NOTHING = frozenset({""})


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    """Return 2·TP / (2·TP + FP + FN) over long and short answers. Rows that are correctly blank do not count."""
    pairs = list(zip(check(submission, answers), answers["right"], strict=True))
    hits = sum(given != "" and given in right for given, right in pairs)
    wrong = sum(given != "" and given not in right for given, right in pairs)
    missed = sum(given == "" and right != NOTHING for given, right in pairs)
    return 2 * hits / total if (total := 2 * hits + wrong + missed) else 0.0
