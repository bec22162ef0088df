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


@groups("movie-review-sentiment-analysis-kernels-only")
def sentences(dataset: Dataset) -> Groups:
    train = pd.read_csv(dataset.public / "train.tsv.zip", sep="\t")
    return set(train["SentenceId"]), set(answers(dataset)["SentenceId"])


@groups("google-quest-challenge")
def questions(dataset: Dataset) -> Groups:
    return _column(dataset, "question_body", "test.csv")


@groups("hms-harmful-brain-activity-classification")
def patients_of_recordings(dataset: Dataset) -> Groups:
    return _column(dataset, "patient_id", "test.csv")


@groups("ranzcr-clip-catheter-line-classification")
def patients_of_images(dataset: Dataset) -> Groups:
    train = pd.read_csv(dataset.public / "train.csv")
    return set(train["PatientID"]), set(answers(dataset)["PatientID"])


@groups("stanford-covid-vaccine")
def sequences_but_for_the_first_base(dataset: Dataset) -> Groups:
    train, test = (pd.read_json(dataset.public / f"{side}.json", lines=True) for side in ("train", "test"))
    return set(train["sequence"].str[1:]), set(test["sequence"].str[1:])


def _column(dataset: Dataset, column: str, test: str) -> Groups:
    """The groups that a column of both public tables names."""
    train, held_out = (pd.read_csv(dataset.public / name) for name in ("train.csv", test))
    return set(train[column]), set(held_out[column])
