from pathlib import Path

import pandas as pd

from pytest_mlebench.authoring.files import link_files
from pytest_mlebench.authoring.tables import one_hot, read_csv, split, write_csv


def prepare(raw: Path, public: Path, private: Path) -> None:
    write_sides(*split(read_csv(raw / "labels.csv"), test_size=0.1), raw, public, private)


def write_sides(train: pd.DataFrame, test: pd.DataFrame, raw: Path, public: Path, private: Path) -> None:
    breeds = sorted({*train["breed"], *test["breed"]})
    answers = test[["id"]].join(one_hot(test["breed"], breeds))
    write_csv(train, public / "labels.csv")
    write_csv(answers, private / "test.csv")
    write_csv(answers.assign(**dict.fromkeys(breeds, 1 / len(breeds))), public / "sample_submission.csv")
    link_files(train["id"] + ".jpg", raw / "train", public / "train")
    link_files(test["id"] + ".jpg", raw / "train", public / "test")
