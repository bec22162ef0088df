from pathlib import Path

import pandas as pd

from pytest_mlebench.authoring.files import link_files, link_tree
from pytest_mlebench.authoring.tables import read_csv, split_groups, write_csv

from .labels import VOTES


def prepare(raw: Path, public: Path, private: Path) -> None:
    write_sides(*split_groups(read_csv(raw / "train.csv"), "spectrogram_id", test_size=0.1), raw, public, private)


def write_sides(train: pd.DataFrame, test: pd.DataFrame, raw: Path, public: Path, private: Path) -> None:
    write_csv(train, public / "train.csv")
    write_csv(test, private / "test.csv")
    write_csv(test[["spectrogram_id", "eeg_id", "patient_id"]], public / "test.csv")
    shares = test[VOTES].div(test[VOTES].sum(axis=1), axis=0)
    write_csv(test[["eeg_id"]].join(shares), private / "gold_submission.csv")
    write_csv(test[["eeg_id"]].assign(**dict.fromkeys(VOTES, 1 / 6)), public / "sample_submission.csv")
    link_tree(raw / "example_figures", public / "example_figures")
    for kind in ("eeg", "spectrogram"):
        for name, rows in (("train", train), ("test", test)):
            files = (f"{id}.parquet" for id in rows[f"{kind}_id"].unique())
            link_files(files, raw / f"train_{kind}s", public / f"{name}_{kind}s")
