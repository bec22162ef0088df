from pathlib import Path

import numpy as np

from pytest_mlebench.authoring.tables import read_csv, split, write_csv


def prepare(raw: Path, public: Path, private: Path) -> None:
    train, test = split(read_csv(raw / "train.csv"), test_size=0.1)
    write_csv(train, public / "train.csv")
    write_csv(test, private / "answers.csv")
    write_csv(test[["essay_id", "full_text"]], public / "test.csv")
    scores = np.random.RandomState(42).randint(1, 7, size=len(test))
    write_csv(test[["essay_id"]].assign(score=scores), public / "sample_submission.csv")
