from pathlib import Path

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.files import link_tree
from pytest_mlebench.authoring.tables import read_csv, split, write_csv


def prepare(raw: Path, public: Path, private: Path) -> None:
    patients = [visits for _, visits in read_csv(raw / "train.csv").groupby("Patient")]
    train, test = map(pd.concat, split(patients, test_size=0.1))
    write_csv(train, public / "train.csv")
    first = test.sort_values("Weeks").groupby("Patient").first().reset_index()
    write_csv(first[test.columns], public / "test.csv")
    weeks = pd.DataFrame({"Weeks": np.arange(test["Weeks"].min(), test["Weeks"].max() + 1)})
    grid = test[["Patient"]].drop_duplicates().merge(weeks, how="cross")
    answers = grid.merge(test, on=["Patient", "Weeks"], how="left")
    answers = answers.assign(Patient_Week=answers["Patient"] + "_" + answers["Weeks"].astype(str), Confidence=100)
    write_csv(answers, private / "test.csv")
    write_csv(answers[["Patient_Week"]].assign(FVC=2000, Confidence=100), public / "sample_submission.csv")
    for name, rows in (("train", train), ("test", test)):
        for patient in rows["Patient"].unique():
            link_tree(raw / "train" / patient, public / name / patient)
