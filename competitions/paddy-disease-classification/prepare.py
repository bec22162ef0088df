from pathlib import Path

from pytest_mlebench.authoring.files import link_files
from pytest_mlebench.authoring.tables import read_csv, split, write_csv


def prepare(raw: Path, public: Path, private: Path) -> None:
    train, test = split(read_csv(raw / "train.csv"), test_size=0.25)
    write_csv(train, public / "train.csv")
    write_csv(test, private / "test.csv")
    write_csv(test[["image_id"]].assign(label=""), public / "sample_submission.csv")
    link_files(train["label"] + "/" + train["image_id"], raw / "train_images", public / "train_images")
    flat = dict(zip(test["label"] + "/" + test["image_id"], test["image_id"], strict=True))
    link_files(flat, raw / "train_images", public / "test_images")
