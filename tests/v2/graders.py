"""Graders: submissions that the first version's grader judges wrongly."""

from __future__ import annotations

import pandas as pd

from pytest_mlebench.data.dataset import Dataset
from tests.v2.probes import REFUSED, graded, perfect


@graded("kuzushiji-recognition", was=None, now=REFUSED)
def more_predictions_than_a_page_may_have(dataset: Dataset) -> pd.DataFrame:
    many = perfect(dataset)
    many.loc[0, "labels"] = " ".join(["U+306F 1 1"] * 1201)
    return many
