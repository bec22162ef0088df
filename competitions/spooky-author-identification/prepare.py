from pathlib import Path

from pytest_mlebench.authoring.archives import zip_member
from pytest_mlebench.authoring.tables import one_hot, read_csv, split, write_csv

from .labels import AUTHORS


def prepare(raw: Path, public: Path, private: Path) -> None:
    with zip_member(raw / "train.zip", "train.csv") as file:
        train, test = split(read_csv(file), test_size=0.1)
    write_csv(train, public / "train.csv")
    write_csv(test[["id", "text"]], public / "test.csv")
    write_csv(test[["id"]].join(one_hot(test["author"], AUTHORS)), private / "test.csv")
    sample = test[["id"]].assign(EAP=0.403493538995863, HPL=0.287808366106543, MWS=0.308698094897594)
    write_csv(sample, public / "sample_submission.csv")
