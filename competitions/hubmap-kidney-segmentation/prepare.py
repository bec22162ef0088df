from pathlib import Path

from pytest_mlebench.authoring.files import link_files
from pytest_mlebench.authoring.tables import read_csv, split, write_csv

INFORMATION = "HuBMAP-20-dataset_information.csv"
SUFFIXES = [".tiff", ".json", "-anatomical-structure.json"]


def prepare(raw: Path, public: Path, private: Path) -> None:
    images = read_csv(raw / "train.csv")
    train, test = split(images, test_size=3, train_size=12)
    information = read_csv(raw / INFORMATION)
    ids = information["image_file"].str.replace(".tiff", "", regex=False)
    sizes = information.assign(id=ids)[["id", "width_pixels", "height_pixels"]]
    write_csv(information[ids.isin(images["id"])], public / INFORMATION)
    write_csv(train, public / "train.csv")
    write_csv(test.merge(sizes, on="id"), private / "test.csv")
    write_csv(test.rename(columns={"encoding": "predicted"}), private / "gold_submission.csv")
    for folder in (public, public / "test"):
        write_csv(test[["id"]].assign(predicted=""), folder / "sample_submission.csv")
    for rows, side in ((train, "train"), (test, "test")):
        link_files((id + suffix for id in rows["id"] for suffix in SUFFIXES), raw / "train", public / side)
