from pathlib import Path

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.files import link_files
from pytest_mlebench.authoring.tables import read_csv, split, write_csv


def prepare(raw: Path, public: Path, private: Path) -> None:
    images = read_csv(raw / "train.csv")
    is_test = choose_test(images["Id"])
    write_sides(images[~is_test], images[is_test], raw, public, private)


def write_sides(train: pd.DataFrame, test: pd.DataFrame, raw: Path, public: Path, private: Path) -> None:
    test = test.assign(Id=test["Id"].where(test["Id"].isin(train["Id"]), "new_whale"))
    write_csv(train, public / "train.csv")
    write_csv(test, private / "test.csv")
    sample = test.assign(Id="new_whale w_1287fbc w_98baff9 w_7554f44 w_1eafe46")
    write_csv(sample, public / "sample_submission.csv")
    link_files(train["Image"], raw / "train", public / "train")
    link_files(test["Image"], raw / "train", public / "test")


def choose_test(whales: pd.Series) -> np.ndarray:
    """Return a mask of test images. Whales are on both sides; an only image is for testing with probability 0.1."""
    is_test = np.zeros(len(whales), dtype=bool)
    undecided = np.ones(len(whales), dtype=bool)
    single = np.random.default_rng(0)
    for _, rows in whales.reset_index(drop=True).groupby(whales.to_numpy(), sort=False).indices.items():
        if len(rows) == 1:
            undecided[rows] = False
            is_test[rows] = single.random() >= 0.9
        else:
            drawn = rows[np.random.RandomState(0).permutation(len(rows))[:2]]
            undecided[drawn] = False
            is_test[drawn[1]] = True
    _, test = split(np.flatnonzero(undecided), test_size=0.1)
    is_test[test] = True
    return is_test
