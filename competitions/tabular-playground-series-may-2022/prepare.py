from pathlib import Path

import numpy as np

from pytest_mlebench.authoring.tables import read_csv, split, write_csv


def prepare(raw: Path, public: Path, private: Path) -> None:
    train, test = split(read_csv(raw / "train.csv"), test_size=100_000)
    train["id"] = np.arange(len(train))
    test["id"] = len(train) + np.arange(len(test))
    write_csv(train, public / "train.csv")
    write_csv(test, private / "test.csv")
    write_csv(test.drop(columns="target"), public / "test.csv")
    write_csv(test[["id", "target"]], private / "gold_submission.csv")
    write_csv(test[["id"]].assign(target=0.5), public / "sample_submission.csv")
