from pathlib import Path

from pytest_mlebench.authoring.files import link_files
from pytest_mlebench.authoring.tables import read_csv, split_groups, write_csv


def prepare(raw: Path, public: Path, private: Path) -> None:
    labels = read_csv(raw / "train_labels.csv")
    unlabelled = sum(path.name.endswith(".tif") for path in (raw / "test").iterdir())
    train, test = split_groups(labels, "id", test_size=unlabelled / (len(labels) + unlabelled))
    write_csv(train, public / "train_labels.csv")
    write_csv(test, private / "answers.csv")
    write_csv(test.assign(label=0), public / "sample_submission.csv")
    link_files(train["id"] + ".tif", raw / "train", public / "train")
    link_files(test["id"] + ".tif", raw / "train", public / "test")
