from pathlib import Path

import pandas as pd

from pytest_mlebench.authoring.files import link, link_files
from pytest_mlebench.authoring.tables import hold_out, read_csv, write_csv
from pytest_mlebench.authoring.tfrecord import read_examples

TEST_RECORDS = ["train00-2071.tfrec", "train06-2071.tfrec"]


def prepare(raw: Path, public: Path, private: Path) -> None:
    images = read_images(raw)
    held_out = {
        example["image_name"][0].decode()
        for name in TEST_RECORDS
        for example in read_examples(raw / "tfrecords" / name)
    }
    write_sides(*hold_out(images, "image_name", held_out), raw, public, private)
    records = sorted(path.name for path in (raw / "tfrecords").glob("train*.tfrec"))
    for side, wanted in (("train", False), ("test", True)):
        for k, name in enumerate(name for name in records if (name in TEST_RECORDS) == wanted):
            link(raw / "tfrecords" / name, public / "tfrecords" / f"{side}{k:02d}-{name.split('-')[1]}")


def read_images(raw: Path) -> pd.DataFrame:
    return read_csv(raw / "train.csv", float_precision=None)


def write_sides(train: pd.DataFrame, test: pd.DataFrame, raw: Path, public: Path, private: Path) -> None:
    """Write all files except the TFRecord files."""
    write_csv(train, public / "train.csv")
    write_csv(test.drop(columns=["diagnosis", "benign_malignant", "target"]), public / "test.csv")
    write_csv(test[["image_name", "target"]], private / "test.csv")
    write_csv(test[["image_name"]].assign(target=0), public / "sample_submission.csv")
    for side, rows in (("train", train), ("test", test)):
        link_files(rows["image_name"] + ".dcm", raw / "train", public / side)
        link_files(rows["image_name"] + ".jpg", raw / "jpeg" / "train", public / "jpeg" / side)
