from pathlib import Path

import numpy as np

from pytest_mlebench.authoring.tables import read_csv, split, take_groups, write_csv

TYPES = dict.fromkeys(["id", "breath_id"], "int32") | dict.fromkeys(["R", "C", "u_out"], "int8")


def prepare(raw: Path, public: Path, private: Path) -> None:
    steps = read_csv(raw / "train.csv", dtype=TYPES)
    breaths = split(np.unique(steps["breath_id"]), test_size=0.1)
    train, test = (take_groups(steps, "breath_id", part) for part in breaths)
    for rows in (train, test):
        rows["id"] = np.arange(1, len(rows) + 1)
    for table, path in (
        (train, public / "train.csv"),
        (test, private / "test.csv"),
        (test.drop(columns="pressure"), public / "test.csv"),
        (test[["id"]].assign(pressure=0), public / "sample_submission.csv"),
    ):
        write_csv(table, path, float_format="%.10g")
