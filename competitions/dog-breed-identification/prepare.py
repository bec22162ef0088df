from pathlib import Path

from pytest_mlebench.data.authoring.corrections import Split
from pytest_mlebench.data.authoring.files import link_files
from pytest_mlebench.data.authoring.tables import one_hot, read_csv, split, write_csv


def prepare(raw: Path, public: Path, private: Path, *, split: Split = split) -> None:
    labels = read_csv(raw / "labels.csv")
    breeds = sorted(labels["breed"].unique())
    train, test = split(labels, test_size=0.1)
    answers = test[["id"]].join(one_hot(test["breed"], breeds))
    write_csv(train, public / "labels.csv")
    write_csv(answers, private / "test.csv")
    write_csv(answers.assign(**dict.fromkeys(breeds, 1 / len(breeds))), public / "sample_submission.csv")
    link_files(train["id"] + ".jpg", raw / "train", public / "train")
    link_files(test["id"] + ".jpg", raw / "train", public / "test")
