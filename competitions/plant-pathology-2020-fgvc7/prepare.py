from pathlib import Path

from pytest_mlebench.authoring.files import link_files
from pytest_mlebench.authoring.tables import read_csv, split, write_csv


def prepare(raw: Path, public: Path, private: Path) -> None:
    train, test = split(read_csv(raw / "train.csv"), test_size=0.1)
    for rows, prefix in ((train, "Train"), (test, "Test")):
        images = rows["image_id"] + ".jpg"
        rows["image_id"] = [f"{prefix}_{k}" for k in range(len(rows))]
        new_names = dict(zip(images, rows["image_id"] + ".jpg", strict=True))
        link_files(new_names, raw / "images", public / "images")
    write_csv(train, public / "train.csv")
    write_csv(test, private / "test.csv")
    write_csv(test[["image_id"]], public / "test.csv")
    sample = test[["image_id"]].assign(healthy=0.25, multiple_diseases=0.25, rust=0.25, scab=0.25)
    write_csv(sample, public / "sample_submission.csv")
