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


@graded("smartphone-decimeter-2022", was=None, now=0.0)
def rows_in_another_order(dataset: Dataset) -> pd.DataFrame:
    return perfect(dataset).sample(frac=1, random_state=0)


@graded("hubmap-kidney-segmentation", was=None, now=REFUSED)
def an_odd_count_of_numbers(dataset: Dataset) -> pd.DataFrame:
    return perfect(dataset).assign(predicted="1 2 3")


@graded("hubmap-kidney-segmentation", was=None, now=REFUSED)
def runs_beyond_the_last_pixel(dataset: Dataset) -> pd.DataFrame:
    return perfect(dataset).assign(predicted="1 2 5 1000000")
