from pathlib import Path

import pandas as pd

from pytest_mlebench.authoring.tables import read_csv, split, write_csv


def prepare(raw: Path, public: Path, private: Path) -> None:
    write_sides(*split(read_csv(raw / "train.csv"), test_size=0.1), public, private)


def write_sides(train: pd.DataFrame, test: pd.DataFrame, public: Path, private: Path) -> None:
    write_csv(train, public / "train.csv")
    write_csv(test.drop(columns=["answer_text", "answer_start"]), public / "test.csv")
    answers = test[["id", "answer_text"]].rename(columns={"answer_text": "PredictionString"})
    write_csv(answers, private / "test.csv")
    write_csv(answers.assign(PredictionString="dummy text"), public / "sample_submission.csv")
