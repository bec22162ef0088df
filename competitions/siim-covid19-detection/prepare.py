from pathlib import Path

import pandas as pd

from pytest_mlebench.authoring.files import link_tree
from pytest_mlebench.authoring.tables import read_csv, split, write_csv

LABELS = {
    "Negative for Pneumonia": "negative",
    "Typical Appearance": "typical",
    "Indeterminate Appearance": "indeterminate",
    "Atypical Appearance": "atypical",
}


def prepare(raw: Path, public: Path, private: Path) -> None:
    studies = read_csv(raw / "train_study_level.csv")
    train, test = (part.sort_values("id") for part in split(studies, test_size=0.1))
    images = read_csv(raw / "train_image_level.csv").sort_values("id")
    is_train = (images["StudyInstanceUID"] + "_study").isin(train["id"])
    write_csv(train, public / "train_study_level.csv")
    write_csv(images[is_train], public / "train_image_level.csv")

    labels = test[list(LABELS)].idxmax(axis=1).map(LABELS)
    answers = pd.concat(
        [
            pd.DataFrame({"id": test["id"], "PredictionString": labels + " 1 0 0 1 1"}),
            images.loc[~is_train, ["id", "label"]].rename(columns={"label": "PredictionString"}),
        ]
    )
    write_csv(answers, private / "test.csv")
    guesses = answers["id"].str.endswith("_study").map({True: "negative 1 0 0 1 1", False: "none 1 0 0 1 1"})
    write_csv(answers.assign(PredictionString=guesses), public / "sample_submission.csv")
    for rows, side in ((train, "train"), (test, "test")):
        for study in rows["id"].str.removesuffix("_study"):
            link_tree(raw / "train" / study, public / side / study)
