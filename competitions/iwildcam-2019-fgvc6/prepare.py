from pathlib import Path

from pytest_mlebench.authoring.archives import copy_members
from pytest_mlebench.authoring.tables import read_csv, split_groups, write_csv


def prepare(raw: Path, public: Path, private: Path) -> None:
    train, test = split_groups(read_csv(raw / "train.csv"), "location", test_size=0.1, random_state=8)
    write_csv(train, public / "train.csv")
    write_csv(test, private / "test.csv")
    write_csv(test.drop(columns="category_id"), public / "test.csv")
    answers = test[["id", "category_id"]].set_axis(["Id", "Category"], axis=1)
    write_csv(answers, private / "answers.csv")
    write_csv(answers.assign(Category=0), public / "sample_submission.csv", index=True)
    for name, ids in (("train_images.zip", train["id"]), ("test_images.zip", test["id"])):
        copy_members(raw / "train_images.zip", public / name, (f"{id}.jpg" for id in ids.unique()))
