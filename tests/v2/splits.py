"""Splits: which groups are in the training data, and which in the test."""

from __future__ import annotations

import re

import pandas as pd

from pytest_mlebench.data.dataset import Dataset
from tests.v2.probes import Groups, answers, groups


@groups("kuzushiji-recognition")
def books(dataset: Dataset) -> Groups:
    train, test = pd.read_csv(dataset.public / "train.csv"), answers(dataset)
    found = [{re.split("[_-]", id)[0] for id in pages["image_id"]} for pages in (train, test)]
    return found[0], found[1]
