from pathlib import Path

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.files import link_files
from pytest_mlebench.authoring.tables import read_csv, split, write_csv


def prepare(raw: Path, public: Path, private: Path) -> None:
    write_sides(*split(read_csv(raw / "train.csv"), test_size=0.1), raw, public, private)


def write_sides(train: pd.DataFrame, test: pd.DataFrame, raw: Path, public: Path, private: Path) -> None:
    write_csv(train, public / "train.csv")
    write_csv(test, private / "test.csv")
    write_csv(test.drop(columns="Pawpularity"), public / "test.csv")
    random_scores = np.random.default_rng(0).uniform(1, 100, len(test)).round(2)
    write_csv(test[["Id"]].assign(Pawpularity=random_scores), public / "sample_submission.csv")
    link_files(train["Id"] + ".jpg", raw / "train", public / "train")
    link_files(test["Id"] + ".jpg", raw / "train", public / "test")
